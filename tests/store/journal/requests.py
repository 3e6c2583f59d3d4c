"""Random requests for every step of the journal, with what users may write and programs may send."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from inspect import signature
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from rumi.models.model import Message, ToolCall
from rumi.platform.chat_ids import LOCAL, task_key
from rumi.store import journal
from rumi.store.journal.deliveries import accept_event
from rumi.store.journal.extraction import mark_extracted
from rumi.store.journal.forgetting import ExpiryCursor, expire_rows
from rumi.store.journal.history import append_history, new_session, summarize
from rumi.store.journal.inbox import accept_messages, begin_turn, load_chat, resume_turn
from rumi.store.journal.leases import claim_partitions
from rumi.store.journal.outbox import settle
from rumi.store.journal.parked import keep_parked
from rumi.store.journal.records import (
    Attachment,
    Button,
    Buttons,
    FinalReply,
    Firing,
    Incoming,
    ScheduleRecord,
    TaskRecord,
    Undone,
    Update,
)
from rumi.store.journal.reopening import reopen_session
from rumi.store.journal.schedules import add_schedule, fire_schedules, pause_failed, set_schedule, tell_missed
from rumi.store.journal.shown import CallWithin, ShownCall
from rumi.store.journal.spending import record_usage, reserve_call
from rumi.store.journal.tasks import add_task, end_task
from rumi.store.journal.undo import take_back
from rumi.store.steps import Run, Step
from tests.store.registry import steps_in

CHATS: Final = ("cli", "tg-1001234567890", "tg-1001234567890_7", "tg5", "a_b", "Ä", "task.1")
OWNERS: Final = (LOCAL, "tg5", "tg-1001234567890")
DAYS: Final = ("2026-10-31", "2026-11-01", "2026-11-23")
SOURCES: Final = ("telegram", "mcp")
BOTS: Final = ("", "tidy")

PARTITION_KEYS: Final = ("", *CHATS, *OWNERS, *map(task_key, range(-3, 200)))
"""All that belongs to a partition in these requests."""

STEPS: Final = steps_in(journal)

TEXT: Final = st.one_of(
    st.sampled_from(
        ("", "hello", "ß % _ ' \" \\ ` ;--", "$1 ?1 :name", "nul \0 in it", "half \ud83d of one")
    ),
    st.sampled_from(("café CAFÉ", "\U0001f600" * 3, "long " * 2_000, "line\r\nline", "\u202e\ufeff")),
    st.text(max_size=8),
)
_PLAIN: Final = st.sampled_from(("", "plain", "Ünd_%", "10"))
_WRITTEN: Final = frozenset(
    {"text", "question", "answer", "episode", "title", "why", "call", "name", "summary"}
)
"""Texts that a person or a model has written."""

_SMALL: Final = st.one_of(st.integers(1, 12), st.sampled_from((0, -1, 2**40)))
_TIMES: Final = st.one_of(
    st.sampled_from((0.0, 1.5)), st.integers(0, 40).map(lambda day: 1_790_000_000.0 + day * 43_200.25)
)

NAMES: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    "chat": st.sampled_from(CHATS),
    "owner": st.sampled_from(OWNERS),
    "person": st.sampled_from(("", "p1")),
    "model": st.sampled_from(("m", "offline", "")),
    "tool": st.sampled_from(("", "bash")),
    "bot": st.sampled_from(BOTS),
    "turn": st.sampled_from(("t1", "t2", "t3", "x", "")),
    "key": st.sampled_from(("k1", "k2", "k3")),
    "keys": st.lists(st.sampled_from(("a", "b")), max_size=2).map(tuple),
    "noticed": st.lists(st.sampled_from(("a", "b")), max_size=2).map(tuple),
    "day": st.sampled_from(DAYS),
    "first": st.just(DAYS[0]),
    "last": st.sampled_from(DAYS),
    "source": st.sampled_from(SOURCES),
    "zone": st.sampled_from(("UTC", "Europe/Madrid")),
    "cron": st.sampled_from(("", "0 9 * * *")),
    "instant": st.sampled_from((1_790_000_000.0, 1_790_000_100.5)),
    "session": st.integers(0, 4),
    "worker": st.sampled_from(("w2", "w3")),
    "partition": st.integers(0, 256),
    "limit": st.integers(0, 30),
    "most": st.integers(0, 1_000),
    "latest": st.integers(0, 5),
    "heard": st.just(0),
    "max_tokens": st.one_of(st.none(), st.integers(0, 300)),
    "without": st.lists(st.sampled_from(("tg", "task.", "_")), max_size=2).map(tuple),
    "numbers": st.lists(st.integers(0, 256), max_size=3).map(tuple),
    "options": st.sampled_from(("{}", '{"a": 1}')),
    "report": st.sampled_from(("{}", '{"b": "é"}')),
    "status": st.sampled_from(("{}", '{"chats": 2}', "damaged")),
    "reference": st.sampled_from(("", "f1")),
    "media_type": st.just("text/plain"),
    "channel": st.sampled_from(("", "telegram")),
    "id": _SMALL,
    "words": st.sampled_from(("", "hello", "CAFE", "%")),
    "preview": st.one_of(st.none(), st.integers(-5, 5)),
    "lease_s": st.floats(0, 100),
    "partitions": st.sampled_from((None, frozenset(range(256)))),
    "manifest": st.sampled_from((b"", b"m")),
}
"""What fields of a name have. Others have what their type allows."""


_OF_A_KIND: Final[dict[Any, st.SearchStrategy[Any]]] = {}
"""What fields of a type have, whatever their name."""


def values(kind: Any, name: str = "") -> st.SearchStrategy[Any]:
    """Return what a field of that type and name may have."""
    if kind in _OF_A_KIND:
        return _OF_A_KIND[kind]
    if is_dataclass(kind) and isinstance(kind, type):
        return built(kind)
    if name in NAMES:
        return NAMES[name]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, UnionType):
        return st.one_of(*(values(argument, name) for argument in arguments))
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(values(arguments[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*(values(argument) for argument in arguments))
    plain: dict[Any, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        bytes: st.binary(max_size=8),
        int: _SMALL,
        float: _TIMES,
        str: TEXT if name in _WRITTEN else _PLAIN,
        type(None): st.none(),
    }
    return plain[kind]


def built(kind: type, /, **given: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return values of a dataclass."""
    hints = get_type_hints(kind)
    made = {field.name: values(hints[field.name], field.name) for field in fields(kind)}
    return st.builds(kind, **made | given)


_MESSAGES: Final = st.builds(
    Message,
    st.sampled_from(("user", "assistant", "tool", "system")),
    TEXT,
    st.lists(st.builds(ToolCall, st.just("c1"), st.just("bash"), TEXT), max_size=2).map(tuple),
    st.sampled_from((None, "c1")),
)
_OF_A_KIND[Message] = _MESSAGES
# Calls within calls have none within them.
_OF_A_KIND[CallWithin] = st.builds(
    CallWithin, _PLAIN, _PLAIN, TEXT, st.builds(ShownCall, st.booleans(), TEXT)
)
_BUTTON: Final = built(Button, id=st.sampled_from(("b1", "b2")), label=TEXT, words=TEXT)
_BUTTONS: Final = st.lists(_BUTTON, max_size=2).map(tuple)
_OF_A_KIND[Buttons] = _BUTTONS
_NONE: Final = st.just(0)
_INCOMING: Final = st.builds(
    Incoming,
    update=st.one_of(st.none(), st.builds(Update, st.sampled_from(SOURCES), st.integers(1, 9))),
    chat=st.sampled_from(("", *CHATS)),
    text=TEXT,
    language=st.sampled_from((None, "en", "es")),
    admin=st.booleans(),
    origin=st.sampled_from((None, 0, 5, -(2**40))),
    attachments=st.lists(
        st.builds(Attachment, st.sampled_from(("file", "voice", "words")), name=TEXT), max_size=2
    ).map(tuple),
    answer=st.one_of(st.none(), TEXT),
    user=st.sampled_from((None, 5, -(2**50))),
    moved=st.sampled_from((None, ("tg-100", "tg-1001234567890"), ("tg5", "tg-9"))),
    unattended=st.booleans(),
    apart=st.booleans(),
    schedule=st.integers(0, 3),
    task=st.integers(0, 3),
    notice=st.booleans(),
    tainted=st.booleans(),
    buttons=_BUTTONS,
    button=st.sampled_from(("", "b1")),
)
_OF_A_KIND[Incoming] = _INCOMING
_STORED: Final = _INCOMING.filter(lambda message: bool(message.chat))
_WORK: Final = built(TaskRecord, message=_NONE, id=_NONE, state=st.just("queued"), said=st.just(()))
_TASK: Final = built(
    TaskRecord, message=st.integers(0, 5), id=_NONE, state=st.just("queued"), said=st.just(())
)
_SCHEDULE: Final = built(ScheduleRecord, message=st.integers(0, 5), id=_NONE)
_FIRING: Final = built(
    Firing,
    schedule=st.integers(1, 3),
    message=st.one_of(st.none(), _STORED),
    task=st.one_of(st.none(), _WORK),
    missed=st.integers(0, 2),
    number=st.integers(0, 3),
)
_UNDONES: Final = st.builds(
    Undone,
    message=st.sampled_from(range(1, 4)),
    turn=st.sampled_from(("t1", "t2", "t3")),
    text=TEXT,
    facts=st.just(("a", "b")),
)
_OF_A_KIND[Undone] = _UNDONES


def asked(step: Step[Any, ..., Any], **given: st.SearchStrategy[Any]) -> st.SearchStrategy[Run[Any]]:
    """Return requests to run a step, with arguments that its parameters allow."""
    hints = get_type_hints(step.do)
    _, *names = signature(step.do).parameters
    arguments = [given[name] if name in given else values(hints[name], name) for name in names]
    return st.tuples(*arguments).map(lambda chosen: step(*chosen))


def _taken_back(chat: str, undone: Undone, clean_files: bool) -> Run[Undone]:
    """A message takes a turn of its own chat back, and no other."""
    message = undone.message + 10 * CHATS.index(chat)
    return take_back(chat, Undone(message, undone.turn, undone.text), clean_files)


_REPLY: Final = built(FinalReply, messages=st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple))

SPECIAL: Final[Mapping[Step[Any, ..., Any], st.SearchStrategy[Run[Any]]]] = {
    accept_messages: st.builds(accept_messages, st.lists(_INCOMING, min_size=1, max_size=3).map(tuple)),
    accept_event: asked(accept_event, message=_STORED, most_per_hour=st.integers(1, 3)),
    begin_turn: asked(begin_turn, retries=st.none()),
    resume_turn: asked(resume_turn, message=st.integers(1, len(CHATS))),
    settle: asked(settle, reply=_REPLY),
    reopen_session: asked(
        reopen_session, number=st.integers(1, 3), reply=st.one_of(st.none(), _REPLY), due=st.floats(0, 99)
    ),
    add_task: st.builds(add_task, _TASK),
    add_schedule: asked(add_schedule, new=_SCHEDULE, most=st.integers(0, 20), users=st.just((5,))),
    fire_schedules: st.builds(fire_schedules, st.lists(_FIRING, max_size=2).map(tuple)),
    pause_failed: asked(pause_failed, message=_STORED),
    tell_missed: asked(tell_missed, message=_STORED),
    take_back: st.builds(_taken_back, st.sampled_from(CHATS), _UNDONES, st.booleans()),
    expire_rows: st.builds(
        expire_rows, _TIMES, st.builds(ExpiryCursor, st.integers(0, 9), st.integers(0, 3))
    ),
    claim_partitions: st.builds(
        claim_partitions, st.sampled_from(("w2", "w3")), st.integers(0, 60), st.floats(0, 9)
    ),
}

STRATEGIES: Final[Mapping[Step[Any, ..., Any], st.SearchStrategy[Run[Any]]]] = {
    step: SPECIAL[step] if step in SPECIAL else asked(step) for step in STEPS
}

_STORING: Final[tuple[Step[Any, ..., Any], ...]] = (
    *(accept_messages, accept_messages, append_history, begin_turn, settle, new_session, add_task),
    *(add_schedule, reserve_call, keep_parked, record_usage, summarize, mark_extracted, set_schedule),
    *(fire_schedules, end_task, load_chat, reopen_session),
)
FIRST: Final = accept_messages(tuple(Incoming(chat=chat, text="hello") for chat in CHATS))
"""A request that comes before all others: steps about a message find one."""

SETUP: Final = st.one_of(*(STRATEGIES[step] for step in _STORING))
"""Requests that store something for others to find."""
