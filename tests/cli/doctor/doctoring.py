"""What the doctor's tests share."""

from pathlib import Path

import pytest

from rumi.cli.doctor.check import Check
from rumi.platform.home import Home

ELSEWHERE = (
    *(
        "GROQ_API_KEY",
        "GROQ_BASE_URL",
        "TELEGRAM_TOKEN",
        "TELEGRAM_BASE_URL",
        "TAVILY_API_KEY",
        "KAGI_API_KEY",
        "KAGI_SESSION_TOKEN",
        "TABSTACK_API_KEY",
    ),
    *("RUMI_MODEL__DEFAULT", "RUMI_SANDBOX__BACKEND", "RUMI_SANDBOX__IMAGE", "RUMI_LANGUAGE"),
)


def sound_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home without Docker and without keys, whatever the machine has."""
    for name in ELSEWHERE:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{folder}/no-daemon.sock")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setattr("rumi.cli.doctor.check.CHECK_S", 120.0)  # a daemon is slow while other tests run
    monkeypatch.setenv("RUMI_SANDBOX__TOOLS", "core")  # as this run's image has them
    return Home(folder / "home").make()


def real_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the doctor use this machine's daemon, which is slow while other tests run."""
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setattr("rumi.sandbox.choose.DAEMON_S", 60.0)


def by_name(checks: list[Check], name: str) -> Check:
    """The one finding of that name."""
    found = [check for check in checks if check.name == name]
    assert len(found) == 1, checks
    return found[0]


def failures(checks: list[Check]) -> list[str]:
    """The checks that need a fix."""
    return [check.name for check in checks if check.verdict == "failure"]
