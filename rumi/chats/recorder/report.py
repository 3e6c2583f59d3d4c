"""Summarizes a recorded turn and packs it for a bug report."""

import json
import platform
import zipfile
from pathlib import Path

from rumi import __version__
from rumi.chats.recorder.recording import RecordedTurn, read_lines
from rumi.platform.commit import own_commit, version
from rumi.platform.redact import Redactor
from rumi.platform.untrusted_text import one_line

SHOWN_CHARS = 100
MOST_SHOWN = 20


def contents(turn: RecordedTurn, redact: Redactor) -> list[str]:
    """Describe the contents of a recording, as text for a person who is about to share it."""
    head = turn.head
    said = [message["content"] for message in head["history"] if message["role"] == "user"]
    last = one_line(said[-1] if said else "", SHOWN_CHARS)
    lines = [
        f"{len(head['history'])} messages of the history, the last: {last}",
        f"{len(turn.model_calls)} model requests with their replies ({head['model']})",
        f"{len(turn.calls)} tool calls with their results",
    ]
    for recorded_call in turn.calls[:MOST_SHOWN]:
        call = one_line(f"{recorded_call.call.name} {recorded_call.call.arguments}", SHOWN_CHARS)
        lines.append(f"  {call}: {len(recorded_call.result.content)} characters")
    if len(turn.calls) > MOST_SHOWN:
        lines.append(f"  and {len(turn.calls) - MOST_SHOWN} more")
    return [redact.text(line) for line in lines]


def pack(recording: Path, target: Path, redact: Redactor) -> None:
    """Write a zip file with the recording and the versions of Rumi and other software, without secrets.

    Secrets are redacted again, because an earlier version of Rumi may have written the recording, and keys
    that must be redacted may have been added since then.

    Raises:
        OSError: the file cannot be written, or the target already exists.
    """
    lines = [json.dumps(redact.json(line), separators=(",", ":")) for line in read_lines(recording)]
    about = {
        "rumi": version(__version__, own_commit()),
        "python": platform.python_version(),
        "system": platform.platform(),
    }
    with zipfile.ZipFile(target, "x", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("recording.jsonl", "".join(f"{line}\n" for line in lines))
        packed.writestr("about.json", json.dumps(about, indent=1))
    target.chmod(0o600)
