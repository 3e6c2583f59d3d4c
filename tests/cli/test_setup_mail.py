"""A mailbox from `rumi setup` to `rumi doctor`, with real servers; and what is loaded without one."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from rumi.cli.doctor.check import Check, Examination
from rumi.cli.doctor.mail import mailboxes
from rumi.cli.setup_mail import KNOWN, guess
from rumi.platform.config.cascade import Loaded, load_settings
from rumi.platform.config.schema import MailSection
from tests.cli.program import Program
from tests.mail_servers import PASSWORD, MailServers


@pytest.fixture
def rumi(tmp_path: Path) -> Program:
    return Program(tmp_path / "home", {"RUMI_SANDBOX__BACKEND": "bubblewrap"})


async def examined(loaded: Loaded) -> list[Check]:
    found: list[Check] = []
    await mailboxes(Examination("en", found.append), loaded)
    return found


async def test_a_mailbox_is_asked_for_tried_stored_and_checked(
    rumi: Program, mail_servers: MailServers
) -> None:
    imap, smtp = f"127.0.0.1:{mail_servers.imap}", f"127.0.0.1:{mail_servers.smtp}"
    first = ("no address", "ana@example.test", "127.0.0.1", smtp, "ana", "x")
    answers = ("", "5", "", "n", "n", "y", *first, imap, "", "", "wrong", "", "", "", PASSWORD, "", "")
    said = rumi.run("setup", text="".join(f"{line}\n" for line in answers)).stdout
    assert "This is an address, such as" in said
    assert "A server is a host and a port" in said
    assert "✗ The mail server" in said
    assert "✓ both servers accept the login; folders: " in said
    assert PASSWORD not in said
    stored = tomllib.loads((rumi.home / "config.toml").read_text())["mail"]
    assert stored == {
        "example-test": {
            "address": "ana@example.test",
            "imap": imap,
            "smtp": smtp,
            "user": "ana",
            "password": "$MAIL_EXAMPLE_TEST_PASSWORD",
        }
    }
    assert PASSWORD in (rumi.home / ".env").read_text()
    loaded = load_settings(rumi.home, {}, {})
    (check,) = await examined(loaded)
    assert (check.name, check.verdict) == ("mail example-test", "ok")
    assert "read and sent from" in check.found
    (rumi.home / ".env").write_text("MAIL_EXAMPLE_TEST_PASSWORD=other\n")
    (check,) = await examined(load_settings(rumi.home, {}, {}))
    assert (check.verdict, "does not accept" in check.found) == ("failure", True)
    with (rumi.home / "config.toml").open("a") as file:
        file.write('drafts = "Nowhere"\n')
    (rumi.home / ".env").write_text(f"MAIL_EXAMPLE_TEST_PASSWORD={PASSWORD}\n")
    (check,) = await examined(load_settings(rumi.home, {}, {}))
    assert (check.verdict, check.found) == ("warning", "the login works; there is no folder for: drafts")
    assert rumi.run("chat", "-p", "hello").stdout  # with a mailbox, everything starts
    assert not any(path.name.endswith("S") for path in mail_servers.stored("ana"))


def test_the_servers_of_an_address_are_known_or_guessed() -> None:
    assert guess("ana@GMAIL.com").imap == "imap.gmail.com:993"
    assert guess("ana@firma.example").smtp == "smtp.firma.example:465"
    for domain, service in KNOWN.items():
        MailSection.model_validate({"address": f"a@{domain}", "imap": service.imap, "smtp": service.smtp})


def test_without_a_mailbox_nothing_of_it_is_loaded() -> None:
    code = (
        "import sys, rumi.cli, rumi.app.tree\n"
        "found = {'imaplib', 'smtplib'} | {n for n in sys.modules if n.startswith('rumi.services.mail.')}\n"
        "print(sorted(found & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True
    )
    assert done.stdout.strip() == "[]"
