"""Roles: what the built-in ones and an owner's own allow, and how a configuration gives them."""

from pathlib import Path

import pytest

from rumi.agent.permissions.rights import ADMIN, GUEST, MEMBER, NOBODY, Rights, may_do
from rumi.agent.tool_names import BASH_TOOLS
from rumi.chats.commands import NAMES as COMMAND_NAMES
from rumi.chats.people.people import OWNER, People
from rumi.errors import ConfigError
from rumi.models.metering import Limit
from rumi.store.journal.records import Incoming, TaskRecord
from tests.chats.people.speaking import ANN, BOB, CAT, GROUP, GUS, OLD, Named, people


def test_a_section_of_people_wins_over_the_lists_of_telegram(tmp_path: Path) -> None:
    known = people(tmp_path)
    roles = {
        user: known.of(Incoming(chat=GROUP, user=user)).rights.role for user in (ANN, BOB, GUS, CAT, OLD)
    }
    assert roles == {ANN: "admin", BOB: "member", GUS: "guest", CAT: "reader", OLD: "member"}
    assert known.of(Incoming(chat=GROUP, user=99)).rights == NOBODY


def test_a_role_of_the_owners_has_its_keys_and_otherwise_those_of_a_guest(tmp_path: Path) -> None:
    rights = people(tmp_path).of(Incoming(chat=GROUP, user=CAT)).rights
    assert rights.may_use("time__now")
    assert rights.may_use("web_search")
    assert not rights.may_use("bash")
    assert not rights.may_use("timer")
    assert rights.limits == (Limit("person", "tokens", "day", 5000),)
    assert (rights.schedules, rights.bots, rights.models) == (1, None, GUEST.models)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ('[people.ann]\nrole = "queen"', "people.ann.role = queen is not a role"),
        ("[people.ann]\ntelegram = [1]\n[people.bob]\ntelegram = [1]", "id 1 belongs to ann and to bob"),
        ("[roles.admin]\ntools = []", "roles.admin"),
        ("[people.local]\ntelegram = [1]", "people.local"),
        ("[roles.x]\ntolls = []", "Unknown key roles.x.tolls"),
        ("[people.ann]\ntelegram = [0]", "people.ann.telegram"),
    ],
)
def test_a_wrong_section_is_an_error_that_names_it(tmp_path: Path, config: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        people(tmp_path, config)


def test_every_command_is_an_admins_and_each_has_a_rule_for_guests() -> None:
    assert all(may_do(ADMIN, name) and may_do(MEMBER, name) for name in COMMAND_NAMES)
    mine = {name for name in COMMAND_NAMES if may_do(GUEST, name)}
    here = {name for name in COMMAND_NAMES if may_do(GUEST, name, group=True)}
    everywhere = {"start", "help", "stop", "queue", "status", "retry", "continue", "usage", "whoami", "allow"}
    everywhere |= {"context", "sessions"}
    private = {"new", "reset", "undo", "forget_everything", "compact"}
    assert (mine, mine - here) == (everywhere | private | {"memory", "recall", "voice", "list"}, private)
    assert not any(may_do(NOBODY, name) for name in COMMAND_NAMES)
    assert not may_do(GUEST, "a_command_of_tomorrow")
    assert may_do(GUEST, "voice", "on")
    assert not may_do(GUEST, "voice", "on", group=True)
    assert may_do(GUEST, "sessions", "3")
    assert not may_do(GUEST, "sessions", "3", group=True)


def test_a_private_chat_is_its_users_and_what_nobody_is_known_for_a_members(tmp_path: Path) -> None:
    known = people(tmp_path)
    assert known.of(Incoming(chat=f"tg{GUS}_5", schedule=1)).name == "gus"
    assert known.of(Incoming(chat=GROUP, schedule=1)).rights == MEMBER
    assert known.of(Incoming(chat="cli")) == OWNER
    assert known.of(Incoming(chat=GROUP, unattended=True)) == OWNER, "a command from outside is the owner's"
    assert People().of(Incoming(chat=GROUP, user=GUS)) == OWNER, "without channels all is the owner's"


def test_a_bot_has_no_more_tools_than_the_person_who_started_it(tmp_path: Path) -> None:
    known = people(tmp_path)
    tools = tuple(Named(name, []) for name in ("bash", "web_search", "finish"))
    for user, names in ((BOB, ["bash", "web_search", "finish"]), (CAT, ["web_search", "finish"])):
        task = TaskRecord("bot", GROUP, "go", user=user, bot="tidy")
        assert [tool.name for tool in known.tools_of_task(task, tools)] == names


def test_an_admin_who_is_none_any_more_sees_no_more_than_others(tmp_path: Path) -> None:
    known = people(tmp_path)
    assert known.current(Incoming(chat=f"tg{ANN}", user=ANN, admin=True)).admin
    assert not known.current(Incoming(chat=f"tg{BOB}", user=BOB, admin=True)).admin


def test_who_may_run_commands_may_look_after_those_in_the_background() -> None:
    may, may_not = Rights("works", tools=("bash",)), Rights("reads", tools=("web_*",))
    assert all(may.may_use(tool) for tool in BASH_TOOLS)
    assert not any(may_not.may_use(tool) for tool in BASH_TOOLS)
