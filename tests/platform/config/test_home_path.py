"""Where the home lies when the environment says it badly, as systemd, Docker and Compose do."""

import os
from pathlib import Path

import pytest

from rumi.cli.doctor.check import Check
from rumi.cli.doctor.files import files
from rumi.errors import ConfigError
from rumi.platform.config.files import find_home, home_from
from rumi.platform.home import Danger, Home, UnsafeHome
from rumi.platform.home_permissions import FOREIGN
from rumi.texts import translate


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"HOME": "here"}, "HOME is 'here', which is not an absolute path."),
        ({"HOME": "~"}, "HOME is '~', which is not an absolute path."),
        ({"HOME": "/does/not/exist"}, "HOME is '/does/not/exist', which is not a folder."),
        ({"HOME": "/etc/passwd"}, "HOME is '/etc/passwd', which is not a folder."),
        ({"RUMI_HOME": "~nobody-of-that-name/x"}, "names the user 'nobody-of-that-name'"),
        ({"RUMI_HOME": "$DATA/rumi"}, "RUMI_HOME is '$DATA/rumi'; nothing replaced the variable in it."),
        ({"RUMI_HOME": "${DATA}"}, "nothing replaced the variable"),
        ({"RUMI_HOME": "%h/.rumi"}, "nothing replaced the variable"),
        ({"RUMI_HOME": "/nowhere/$USER/rumi"}, "nothing replaced the variable"),
        ({"RUMI_HOME": "here/${USER}"}, "nothing replaced the variable"),
        ({"RUMI_HOME": "/etc/passwd"}, "it is not a folder"),
        ({"RUMI_HOME": "/proc/rumi"}, "cannot be made"),
    ],
)
def test_a_home_that_nobody_can_mean_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as raised:
        home_from(variables)
    assert says in str(raised.value)
    assert "RUMI_HOME" in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("value", "below"),
    [
        ("{home}/r", "r"),
        ("{home}/r \n", "r"),
        ("{home}/r\r", "r"),
        ('"{home}/r"', "r"),
        ("'{home}/r' ", "r"),
        ("\ufeff{home}/r", "r"),
        ("~/r", "r"),
        ("~", "."),
        ("$HOME/r", "r"),
        ("${HOME}/r", "r"),
        ("", ".rumi"),
        ("  ", ".rumi"),
        ("r", "r"),
        ("{home}/with space", "with space"),
    ],
)
def test_a_home_is_found_as_it_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, below: str
) -> None:
    monkeypatch.chdir(tmp_path)
    given = value.replace("{home}", str(tmp_path))
    assert home_from({"HOME": str(tmp_path), "RUMI_HOME": given}) == tmp_path / below
    assert home_from({"HOME": f"{tmp_path}\n", "RUMI_HOME": given}) == tmp_path / below


def test_a_home_that_has_the_name_of_a_variable_can_still_be_used(tmp_path: Path) -> None:
    (tmp_path / "$USER").mkdir(mode=0o700)
    assert home_from({"RUMI_HOME": f"{tmp_path}/$USER"}) == tmp_path / "$USER"


def test_a_danger_in_the_root_folder_is_told_as_well() -> None:
    found, _ = Danger(FOREIGN, Path("/"), Path("//run/postgresql"), 26).said()
    assert translate("en", found) == "/ has files of another user: run/postgresql."


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("home", ["{folder}", "{folder}/", "/{folder}"])
def test_a_file_of_another_user_is_named_by_its_place_in_the_home(tmp_path: Path, home: str) -> None:
    (tmp_path / "logs").mkdir(mode=0o700)
    os.chown(tmp_path / "logs", 1000, 1000)
    with pytest.raises(UnsafeHome, match="has files of another user: logs"):
        home_from({"RUMI_HOME": home.replace("{folder}", str(tmp_path))})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_root_in_the_home_folder_of_another_user_makes_no_home_there(tmp_path: Path) -> None:
    os.chown(tmp_path, 1000, 1000)
    with pytest.raises(ConfigError, match="belongs to another user, and this is root"):
        home_from({"HOME": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []


def test_doctor_names_a_home_that_may_be_another_one_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def found() -> Check:
        (check,) = [check for check in files(Home(find_home(os.environ)).make()) if check.name == "home"]
        return check

    monkeypatch.setenv("RUMI_HOME", "r")
    assert found().found == "RUMI_HOME is 'r', which is another folder in each working folder"
    monkeypatch.setenv("RUMI_HOME", str(tmp_path / "r"))
    assert found().verdict == "ok"
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("RUMI_HOME", str(tmp_path / "open" / "r"))
    assert found().found == f"others can write to {tmp_path}/open, and put another home in its place"
    (tmp_path / "open").chmod(0o1777)
    assert found().verdict == "ok"
    (tmp_path / "~" / ".rumi").mkdir(parents=True)
    assert f"An earlier version put its data into {tmp_path}/~/.rumi." in found().fix


def test_a_new_home_beside_the_data_of_an_earlier_version_says_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "~" / ".rumi").mkdir(parents=True)
    for said in (1, 0):
        home_from({"RUMI_HOME": str(tmp_path / "new")})
        assert capfd.readouterr().err.count(f"{tmp_path}/~/.rumi") == said
