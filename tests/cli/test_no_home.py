"""Real processes of a user without a name and a home folder, as in `docker run --user 12345`."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.program import RUMI

USER = "12345"
AS_NOBODY_KNOWN = ("unshare", "--user", f"--map-user={USER}", f"--map-group={USER}")


def _works() -> bool:
    if shutil.which("unshare") is None:
        return False
    done = subprocess.run([*AS_NOBODY_KNOWN, "id", "-u"], capture_output=True, text=True)
    return done.stdout.strip() == USER


def rumi(*words: str, folder: Path, prefix: tuple[str, ...] = (), **variables: str) -> tuple[int, str]:
    """Run it in a folder with nothing but these variables; its exit code and all that it prints."""
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **variables}
    done = subprocess.run(
        [*prefix, RUMI, *words], env=environment, cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.mark.skipif(not _works(), reason="needs unshare, which the machine's policy may forbid")
@pytest.mark.parametrize("words", ["doctor", "chat -p hi", "status --json"])
def test_a_user_without_a_name_and_a_home_is_told_what_to_set_and_gets_no_folder(
    tmp_path: Path, words: str
) -> None:
    code, said = rumi(*words.split(), folder=tmp_path, prefix=AS_NOBODY_KNOWN)
    assert code != 0
    assert f"HOME is not set, and user {USER} has no home folder" in said
    assert "Set RUMI_HOME to a folder that you may write to" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not _works(), reason="needs unshare, which the machine's policy may forbid")
def test_the_data_of_an_earlier_version_are_named_and_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "~" / ".rumi").mkdir(parents=True, mode=0o700)
    left = str(tmp_path / "~" / ".rumi")
    code, said = rumi("config", "path", folder=tmp_path, prefix=AS_NOBODY_KNOWN)
    assert code != 0
    assert f"An earlier version put its data into {left}." in said
    _, said = rumi("config", "path", folder=tmp_path, prefix=AS_NOBODY_KNOWN, RUMI_HOME=left)
    assert said == f"{left}/config.toml\n"
