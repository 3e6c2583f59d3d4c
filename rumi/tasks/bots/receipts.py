"""Receipts: a check of a bot's claims against the journal and the bot's files.

A claim is true if the program has evidence from this session: a file exists and was written since the session
started, the last run of a command ended with the claimed exit code, or a page was read.
"""

import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from rumi.models.model import Message, ToolCall
from rumi.platform.openat import FOLDER, openat2, opened
from rumi.platform.untrusted_text import one_line

ClaimKind: TypeAlias = Literal["file", "command", "test", "url"]

MOST_CLAIMS: Final = 50
_CLAIM_CHARS: Final = 2000
_EXIT: Final = "exit code "
_READ: Final = re.compile(r"status 2\d\d\b")
_CLOCK_S: Final = 2.0
"""Tolerance for a file system clock that is behind the system clock, in seconds."""


@dataclass(frozen=True, slots=True)
class BotClaim:
    """A bot's claim about something that it did. `what` is a path, a command or a URL.

    `exit_code` is the exit code that the bot claims for a command.
    """

    kind: ClaimKind
    what: str
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class Checked:
    """A claim after its check: `true` is the verdict, and `found` describes what the program found."""

    claim: BotClaim
    true: bool
    found: str


def claims_in(value: object) -> tuple[BotClaim, ...] | str:
    """Parse the claims in the arguments of a tool call; return an error message if they are invalid."""
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > MOST_CLAIMS:
        return f"takes `claims` as a list of at most {MOST_CLAIMS}"
    found: list[BotClaim] = []
    for item in value:
        if not isinstance(item, dict):
            return "takes each claim as an object with `kind` and `what`"
        kind, what, code = item.get("kind"), item.get("what"), item.get("exit_code", 0)
        if kind not in ("file", "command", "test", "url"):
            return "takes claims of the kinds file, command, test and url"
        if not isinstance(what, str) or not what.strip() or len(what) > _CLAIM_CHARS:
            return "needs `what` in each claim: the path, the command or the address"
        if code is not None and (not isinstance(code, int) or isinstance(code, bool)):
            return "takes `exit_code` as a number"
        found.append(BotClaim(kind, what.strip(), code or 0))
    return tuple(found)


def check_claims(
    claims: Sequence[BotClaim], messages: Sequence[Message], workspace: Path, since: float
) -> tuple[Checked, ...]:
    """Check claims against a session's history and files.

    `since` is the start time of the session, in seconds since 1970. Blocks while reading file attributes.
    """
    calls = _calls(messages)
    return tuple(_checked(claim, calls, workspace, since) for claim in claims)


def as_json(checked: Sequence[Checked]) -> list[dict[str, Any]]:
    """Return checked claims as JSON."""
    return [
        {**asdict(checked_claim.claim), "true": checked_claim.true, "found": checked_claim.found}
        for checked_claim in checked
    ]


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    arguments: Mapping[str, object]
    result: str


def _calls(messages: Sequence[Message]) -> list[_Call]:
    """Return the tool calls in a history that have a result, in the order of the results."""
    found: list[_Call] = []
    asked: dict[str | None, ToolCall] = {}
    for message in messages:
        for call in message.tool_calls:
            asked[call.id] = call
        called = asked.pop(message.tool_call_id, None) if message.role == "tool" else None
        if called is not None:
            try:
                arguments = json.loads(called.arguments or "{}")
            except ValueError:
                continue
            if isinstance(arguments, dict):
                found.append(_Call(called.name, arguments, message.content))
    return found


def _checked(claim: BotClaim, calls: Sequence[_Call], workspace: Path, since: float) -> Checked:
    match claim.kind:
        case "file":
            return _file(claim, workspace, since)
        case "url":
            return _page(claim, calls)
        case _:
            return _command(claim, calls)


def _file(claim: BotClaim, workspace: Path, since: float) -> Checked:
    path = claim.what.removeprefix("/workspace/").removeprefix("./")
    try:
        with opened(os.open(workspace, FOLDER)) as folder, opened(openat2(folder, os.fsencode(path))) as file:
            status = os.fstat(file)
    except (OSError, ValueError):
        return Checked(claim, False, "there is no such file")
    if not stat.S_ISREG(status.st_mode):
        return Checked(claim, False, "it is not a file")
    # The change time, not the modification time: a program can set the latter to any value.
    if status.st_ctime < since - _CLOCK_S:
        return Checked(claim, False, "it was not written in this session")
    return Checked(claim, True, f"{status.st_size} bytes")


def _command(claim: BotClaim, calls: Sequence[_Call]) -> Checked:
    wanted = " ".join(claim.what.split())
    runs = [
        call.result
        for call in calls
        if call.name == "bash" and " ".join(str(call.arguments.get("command", "")).split()) == wanted
    ]
    if not runs:
        return Checked(claim, False, "it did not run in this session")
    ending = one_line(runs[-1].split("\n", 1)[0], 200)
    ended = runs[-1].startswith(f"{_EXIT}{claim.exit_code} ")
    return Checked(claim, ended, ending.partition(" (")[0])


def _page(claim: BotClaim, calls: Sequence[_Call]) -> Checked:
    runs = [
        call.result
        for call in calls
        if call.name == "web_fetch" and str(call.arguments.get("url", "")).strip() == claim.what
    ]
    if not runs:
        return Checked(claim, False, "it was not fetched in this session")
    read = any(_READ.match(run) for run in runs)
    return Checked(claim, read, "read" if read else one_line(runs[-1].split("\n", 1)[0], 120))
