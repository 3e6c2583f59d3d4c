"""Whose calendars a chat gets, and what a home without any costs."""

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from rumi.agent.permissions.rights import GUEST, MEMBER
from rumi.app.parts.calendars import CalendarsPart
from rumi.app.parts.services import ServicesPart
from rumi.chats.context import ChatView
from rumi.chats.people.people import People, Principal
from rumi.platform.chat_ids import BUILT_IN, ChatIds
from rumi.platform.config.cascade import load_settings
from tests.conftest import ROOT


@dataclass
class Inputs:
    """What the part takes of the tree's inputs."""

    loaded: Any
    ids: ChatIds

    def channel_of(self, chat: str) -> Any:
        @dataclass
        class Channel:
            def names_of(self, chat: str) -> tuple[str, ...]:
                return (chat,)

        return Channel()


CONFIG = """
[people.ann]
telegram = [11]
[people.bob]
telegram = [22]
[calendars.mine]
url = "https://a.example.org/x.ics"
[calendars.anns]
url = "https://dav.example.org/"
user = "ann"
password = "$PASSWORD"
people = ["ann", "local"]
[calendars.club]
url = "https://b.example.org/x.ics"
groups = ["-100"]
"""


def part(path: Any, config: str) -> ServicesPart:
    (path / "config.toml").write_text(config)
    loaded = load_settings(path, {"PASSWORD": "pass-7 word"}, {})
    ids = BUILT_IN
    people = People(ids, {11: Principal("ann", MEMBER, (11,)), 22: Principal("bob", MEMBER, (22,))})
    inputs: Any = Inputs(loaded, ids)
    store: Any = None
    return ServicesPart(inputs, people, CalendarsPart(inputs, store))


@pytest.mark.parametrize(
    ("chat", "names"),
    [("cli", ("mine", "anns")), ("tg11", ("anns",)), ("tg22", ()), ("tg-100", ("club",)), ("tg-200", ())],
)
def test_a_calendar_belongs_to_its_people_and_groups_only(
    tmp_path: Any, chat: str, names: tuple[str, ...]
) -> None:
    services = part(tmp_path, CONFIG)
    found = services.inputs.loaded.settings.calendars
    assert (
        tuple(name for name, each in found.items() if services.belongs_to(chat, each.people, each.groups))
        == names
    )


def test_a_part_without_calendars_has_no_tools_and_no_rows(tmp_path: Any) -> None:
    services = part(tmp_path, "")
    view = ChatView("cli", lambda: False, lambda: "en")
    assert (services.tools_for(view), services.state()) == ((), {})


def test_the_rows_have_no_secret(tmp_path: Any) -> None:
    rows = part(tmp_path, CONFIG).state()["calendars"]
    assert rows == [{"name": name, "read": None, "error": ""} for name in ("mine", "anns", "club")]


def test_without_a_calendar_nothing_is_loaded() -> None:
    code = "import sys, rumi.app.tree; print([n for n in sys.modules if n.startswith(NAMES)])"
    names = ("icalendar", "recurring_ical_events", "rumi.services.calendar.c", "rumi.agent.tools.calendar")
    done = subprocess.run(
        [sys.executable, "-c", code.replace("NAMES", repr(names))],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.strip() == "[]"


def test_guests_get_no_calendar() -> None:
    names = ("calendar_read", "calendar_free", "calendar_write")
    assert not any(map(GUEST.may_use, names))
    assert all(map(MEMBER.may_use, names))
