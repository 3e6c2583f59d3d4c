"""The questions of `rumi setup` about Matrix, with a real homeserver, and what the doctor says about it."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rumi.cli.doctor.check import Examination
from rumi.cli.doctor.matrix import homeservers, matrix_accounts
from rumi.cli.setup_matrix import ask_matrix
from rumi.errors import ConfigError
from rumi.platform.chat_ids import BUILT_IN, matrix_number
from rumi.platform.config.cascade import Loaded, load_settings
from rumi.platform.config.people import everybody, owner_in
from rumi.texts import Language, translate
from tests.channels.matrix.serving import in_thread
from tests.matrix_server import Homeserver


@dataclass
class Wizard:
    loaded: Loaded
    answers: list[str]
    language: Language = "en"
    keys: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    def say(self, text: object) -> None:
        self.said.append(translate("en", text))  # type: ignore[arg-type]

    def ask_line(self, question: object, default: str = "", *, hidden: bool = False) -> str:
        return self.answers.pop(0) or default


def loaded(home: Path, config: str = "", **environment: str) -> Loaded:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(config)
    return load_settings(home, environment, {})


@pytest.mark.long
def test_a_password_becomes_a_token_and_a_wrong_one_is_asked_for_again(
    tmp_path: Path, server: Homeserver, capsys: pytest.CaptureFixture[str]
) -> None:
    rumi = server.user()
    name = rumi.id.partition(":")[0][1:]
    answers = ["nobody", rumi.id, server.url, "wrong", "", f"secret of {name}", "@ana:example.test"]
    wizard = Wizard(loaded(tmp_path), answers)
    ask_matrix(wizard)  # type: ignore[arg-type]
    assert wizard.answers == []
    assert wizard.keys["matrix.home.token"] == "$MATRIX_TOKEN_HOME"
    assert wizard.keys["matrix.home.users"] == '["@ana:example.test"]'
    assert wizard.secrets["MATRIX_TOKEN_HOME"].startswith("syt_")
    assert "✗" in capsys.readouterr().out


@pytest.mark.long
async def test_the_doctor_names_encrypted_rooms_and_a_token_of_somebody_else(
    tmp_path: Path, server: Homeserver, monkeypatch: pytest.MonkeyPatch
) -> None:
    rumi, ana = await in_thread(server.user), await in_thread(server.user)
    for encrypted in (True, False):
        room = await in_thread(lambda sealed=encrypted: ana.room(rumi.id, encrypted=sealed))
        await in_thread(lambda room=room: rumi.join(room))
    account = f'[matrix.home]\nhomeserver = "{server.url}"\nuser = "{rumi.id}"\ntoken = "$MATRIX_TOKEN"\n'

    async def found(token: str) -> str:
        examination = Examination("en", lambda check: None)
        await homeservers(examination, loaded(tmp_path, account, MATRIX_TOKEN=token))
        return " ".join(translate("en", check.found) for check in examination.checks)

    assert "is in 2 rooms" in await found(rumi.token)
    monkeypatch.setattr("rumi.cli.doctor.matrix.is_installed", lambda name: False)
    assert "1 encrypted room, which it cannot read without the extra `e2e`" in await found(rumi.token)
    assert f"the token belongs to {ana.id}" in await found(ana.token)
    (check,) = matrix_accounts(loaded(tmp_path, account, MATRIX_TOKEN="x"))
    assert check.verdict == "warning"


def test_people_on_matrix_have_their_roles_and_each_user_belongs_to_one(tmp_path: Path) -> None:
    account = '[matrix.home]\nhomeserver = "https://x.test"\nuser = "@rumi:x.test"\nusers = ["@ben:x.test"]\n'
    people = '[people.ana]\nmatrix = ["@ana:x.test"]\nrole = "admin"\n'
    settings = loaded(tmp_path, account + people).settings
    number = matrix_number("@ana:x.test")
    assert everybody(settings) == {number: ("ana", "admin"), matrix_number("@ben:x.test"): ("", "member")}
    assert owner_in(settings, f"mx-home-{number}_abc") == "ana"
    assert owner_in(settings, "mx-home-rabc_def") == ""
    assert BUILT_IN.may_be_group("mx-home-rabc")
    with pytest.raises(ConfigError, match="belongs to ana and to eve"):
        loaded(tmp_path, account + people + '[people.eve]\nmatrix = ["@ana:x.test"]\n')
    with pytest.raises(ConfigError, match=r"@ana:example\.org"):
        loaded(tmp_path, account.replace("@ben:x.test", "ben"))
