"""The questions about Rumi's own mailbox, with real servers, and what the doctor says about it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rumi.cli import setup_mail
from rumi.cli.doctor.settings import mail_channel
from rumi.cli.setup_mailchannel import ask_channel
from rumi.platform.config.cascade import Loaded, load_settings
from rumi.platform.config.editing import set_keys
from rumi.texts import Language, translate
from tests.mail_servers import PASSWORD, MailServers, missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture(scope="module")
def servers() -> Iterator[MailServers]:
    running = MailServers()
    try:
        yield running
    finally:
        running.stop()


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

    def keep_anyway(self) -> bool:
        return False


def loaded(home: Path, config: str = "", **environment: str) -> Loaded:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(config)
    return load_settings(home, environment, {})


def test_setup_asks_for_the_mailbox_and_for_the_first_person(tmp_path: Path, servers: MailServers) -> None:
    where = [f"127.0.0.1:{port}" for port in (servers.imap, servers.smtp)]
    wizard = Wizard(
        loaded(tmp_path / "home"),
        ["no address", "bob@example.test", *where, "bob", PASSWORD, "ana.b@example.test"],
    )
    ask_channel(wizard)  # type: ignore[arg-type]
    assert wizard.answers == []
    assert wizard.secrets == {"MAIL_RUMI_PASSWORD": PASSWORD}
    assert wizard.keys["people.ana-b.mail"] == '["ana.b@example.test"]'
    assert wizard.keys["people.ana-b.role"] == "admin"
    assert any("accept the login" in said for said in wizard.said)
    (tmp_path / "home" / ".env").write_text(f"MAIL_RUMI_PASSWORD='{PASSWORD}'\n")
    (tmp_path / "home" / ".env").chmod(0o600)
    set_keys(tmp_path / "home" / "config.toml", wizard.keys)
    now = load_settings(tmp_path / "home", {}, {})
    assert now.settings.mail["rumi"].channel
    (check,) = mail_channel(now)
    assert check.verdict == "ok"
    assert setup_mail.guess("a@gmail.com").saves


BOX = '[mail.rumi]\naddress = "rumi@x.test"\nimap = "x.test:993"\nchannel = true\n'


@pytest.mark.parametrize(
    ("config", "verdict"),
    [
        ("", None),
        ('[people.ana]\nmail = ["ana@x.test"]\n', "warning"),
        (BOX, "failure"),
        (f'{BOX}smtp = "x.test:465"\n', "warning"),
        (f'{BOX}smtp = "x.test:465"\n[people.ana]\nmail = ["Rumi@x.test"]\n', "warning"),
        (f'{BOX}smtp = "x.test:465"\n[people.ana]\nmail = ["ana@x.test"]\n', "ok"),
    ],
)
def test_the_doctor_finds_a_mailbox_that_cannot_answer_or_has_nobody(
    tmp_path: Path, config: str, verdict: str | None
) -> None:
    assert [check.verdict for check in mail_channel(loaded(tmp_path / "home", config))] == (
        [verdict] if verdict else []
    )
