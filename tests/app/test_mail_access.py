"""Who reaches a mailbox: its person, in chats of their own, and nobody else."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rumi.agent.permissions.rights import GUEST
from rumi.app.parts.services import ServicesPart, add_services
from rumi.app.settings import people_of
from rumi.channels.channel import Channel
from rumi.chats.context import ChatView
from rumi.platform.chat_ids import BUILT_IN
from rumi.platform.config.cascade import load_settings

CONFIG = """
[telegram]
allowed_users = [11, 12]
[people.ana]
telegram = [11]
[people.leo]
telegram = [12]
[mail.mine]
address = "me@example.org"
imap = "imap.example.org:993"
smtp = "smtp.example.org:465"
[mail.anas]
address = "ana@example.org"
imap = "imap.example.org:993"
people = ["ana"]
[mail.rumis]
address = "rumi@example.org"
imap = "imap.example.org:993"
channel = true
"""


class Root:
    """Notes which actors are added."""

    def __init__(self) -> None:
        self.added: list[str] = []

    def add(self, spec: Any) -> None:
        self.added.append(spec.id)


def part(path: Path, config: str) -> tuple[ServicesPart, list[str]]:
    (path / "config.toml").write_text(config)
    loaded, root = load_settings(path, {}, {}), Root()
    inputs: Any = SimpleNamespace(loaded=loaded, ids=BUILT_IN, root=root, channel_of=lambda chat: Channel())
    store: Any = SimpleNamespace(journal=SimpleNamespace(ask=None))
    files: Any = None
    return add_services(inputs, store, people_of(loaded, BUILT_IN), files), root.added


def names(services: ServicesPart, chat: str) -> list[tuple[str, str]]:
    view = ChatView(chat, lambda: False, lambda: "en")
    return [(tool._access.name, tool.spec.name) for tool in services.tools_for(view)]  # type: ignore[attr-defined]


def test_a_mailbox_is_reached_only_in_chats_of_its_person(tmp_path: Path) -> None:
    services, added = part(tmp_path, CONFIG)
    reads = ["mail_search", "mail_read", "mail_save", "mail_draft"]
    assert names(services, "cli") == [("mine", name) for name in (*reads, "mail_send")]
    assert names(services, "notes") == names(services, "cli")
    assert names(services, "tg11") == [("anas", name) for name in reads]  # it has no SMTP server
    assert names(services, "tg12") == []
    assert names(services, "tg99") == []
    assert names(services, "tg-100777") == []  # a group, whoever is in it
    assert names(services, "tg-100777_5") == []
    assert added == ["mail:mine", "mail:anas", "mail:rumis"]


def test_without_a_mailbox_there_are_no_tools_and_no_actors(tmp_path: Path) -> None:
    services, added = part(tmp_path, "")
    assert (names(services, "cli"), added, services.mail) == ([], [], None)


@pytest.mark.parametrize("tool", ["mail_search", "mail_read", "mail_save", "mail_draft", "mail_send"])
def test_guests_have_no_mail_tools(tool: str) -> None:
    assert not GUEST.may_use(tool)
