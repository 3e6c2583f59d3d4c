"""Entries of the page from what the journal has stored. A live transcript builds the same from events."""

from collections.abc import Iterator

from rumi.agent.events import ToolStarted, title_of
from rumi.agent.todo_list import TODO
from rumi.channels.page.entries import (
    Part,
    TranscriptEntry,
    message_of,
    outcome,
    question_part,
    reply_at,
    said_at,
    said_parts,
    text_part,
    todo_part,
    tool_part,
    turn_at,
    with_usage,
)
from rumi.chats.session import WITHOUT_ANSWER, ended
from rumi.models.model import ToolCall
from rumi.store.journal.records import StoredReply
from rumi.store.journal.shown import CallWithin, ShownCall, ShownReply
from rumi.store.journal.transcript import StoredMessage


def entries_of(message: StoredMessage) -> Iterator[TranscriptEntry]:
    """Yield the entries of a message: what was said, its turn, and its reply if it has no turn."""
    if not (message.notice or message.task):
        yield _said(message)
    if message.turn:
        yield _turn(message)
    elif message.reply is not None:
        yield _reply(message, message.reply)


def close(entry: TranscriptEntry, text: str, reason: str) -> None:
    """Make `text` the final text of an answer, or put it below what a turn without an answer has said."""
    last = entry.last_text
    if not text:
        return
    if last is None or (reason in WITHOUT_ANSWER and not last.data.get("ending")):
        part = text_part(text)
        entry.add(part | {"ending": True} if reason in WITHOUT_ANSWER else part)
    elif text.rstrip() != last.raw.rstrip():
        last.data = last.data | {"raw": text}
        last.blocks = None


def _is_replaced(message: StoredMessage) -> bool:
    """Return True for an earlier version: it was retried, or a branch continues from before it."""
    return message.retried != 0 or message.left


def _said(message: StoredMessage) -> TranscriptEntry:
    number = message.message
    entry = TranscriptEntry(
        f"m{number}", said_at(number), "you", "sent", began=message.at, messages=(number,)
    )
    entry.session, entry.undone, entry.replaced = message.session, message.undone, _is_replaced(message)
    entry.branches = message.branches
    if message.schedule or message.trigger:
        entry.kind, entry.source = "event", message.trigger or f"schedule {message.schedule}"
    if not message.answered and not message.turn and not message.part_of:
        entry.state = "queued"
    for data in said_parts(message.text, message.attachments):
        entry.add(data)
    return entry


def _reply(message: StoredMessage, reply: StoredReply) -> TranscriptEntry:
    entry = TranscriptEntry(f"r{reply.delivery}", reply_at(reply.messages), "reply", began=reply.created)
    entry.messages, entry.session = reply.messages, message.session
    entry.delivery, entry.seen = reply.delivery, reply.delivered
    if message.task:
        entry.source = f"task {message.task}"
    for question in reply.questions:
        entry.add(question_part(question))
    entry.buttons = _buttons(reply)
    entry.add(text_part(reply.text))
    _note(entry, reply)
    return entry


def _turn(message: StoredMessage) -> TranscriptEntry:
    number = message_of(message.turn) or message.message
    entry = TranscriptEntry(message.turn, turn_at((number,)), "answer", "running", began=message.at)
    entry.messages, entry.session, entry.undone = (number,), message.session, message.undone
    entry.replaced = _is_replaced(message)
    if message.cut:
        entry.about["cut"] = True
    calls: dict[str, Part] = {}
    for row in message.entries:
        said, shown = row.entry.message, row.entry.shown
        if said.role == "assistant":
            text, _ = ended(said.content)
            if isinstance(shown, ShownReply) and shown.call is not None:
                entry.about = with_usage(entry.about, shown.call)
                entry.think(shown.call)
            if text:
                entry.add(text_part(text))
            for call in said.tool_calls:
                _called(entry, call, calls)
            if isinstance(shown, ShownReply):
                for within in shown.calls:
                    _ended(entry, within, calls)
        elif said.role == "tool":
            part = calls.get(said.tool_call_id or "")
            seen = shown if isinstance(shown, ShownCall) else ShownCall(True, said.content)
            if part is not None:
                _result(entry, part, seen, calls)
    if message.answered:
        _end(entry, message)
    return entry


def _end(entry: TranscriptEntry, message: StoredMessage) -> None:
    entry.state, entry.reason, number = "done", message.reason, message.message
    for part in entry.parts:
        if part.data.get("state") == "running":
            part.data = part.data | {"state": "failed"}
    reply = message.reply
    if reply is None:
        return
    entry.buttons = _buttons(reply)
    close(entry, reply.text, message.reason)
    entry.messages, entry.at = reply.messages, turn_at((number, *reply.joined))
    entry.ended, entry.delivery, entry.seen = reply.created, reply.delivery, reply.delivered
    _note(entry, reply)


def _called(entry: TranscriptEntry, call: ToolCall, calls: dict[str, Part]) -> None:
    arguments = call.parsed_arguments
    todo = todo_part(arguments) if call.name == TODO else None
    if todo is None:
        title = title_of(ToolStarted(call, arguments), str)
        calls[call.id] = entry.add(tool_part(call.id, call.name, title))
        return
    entry.list_todo(todo)


def _result(entry: TranscriptEntry, part: Part, shown: ShownCall, calls: dict[str, Part]) -> None:
    part.data = part.data | outcome(shown)
    for question in shown.questions:
        entry.add(question_part(question))
    for within in shown.within:
        _ended(entry, within, calls)


def _ended(entry: TranscriptEntry, within: CallWithin, calls: dict[str, Part]) -> None:
    part = calls.get(within.id)
    if part is None:
        part = calls[within.id] = entry.add(tool_part(within.id, within.name, within.title))
    _result(entry, part, within.call, calls)


def _note(entry: TranscriptEntry, reply: StoredReply) -> None:
    if reply.note:
        entry.add({"kind": "note", "text": reply.note})


def _buttons(reply: StoredReply) -> tuple[tuple[str, str], ...]:
    return tuple((button.label, button.words) for button in reply.buttons)
