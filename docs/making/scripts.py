"""`docs/scripts.md`: what scripts can rely on, from the code. `make docs` writes it."""

from pathlib import Path

from rumi.channels.terminal.once import EXIT_CODES as OF_TURNS
from rumi.channels.terminal.session import INTERRUPTED, UNCONFIRMED
from rumi.cli.json_forms import DOCUMENTS, LINES
from rumi.cli.models import EXIT_NO_ANSWER
from rumi.errors import RumiError, UsageError

TARGET = Path(__file__).parent.parent / "scripts.md"

TEXT = """# Rumi in scripts

Every command can be used in a script: it prints only the answer on standard output, everything else on
standard error, and ends with an exit code that says what happened. With `--json` it prints JSON that fits a
published schema.

```
cat notes.txt | rumi -x "make a CSV table of this" > table.csv
rumi memory list --json | jq -r '.[] | "\\(.key): \\(.value)"'
rumi config get model.default
```

Written by `make docs` from the code.

## What holds for every command

- Standard output has the answer and nothing else. Progress, notes and errors go to standard error; an error
  is one sentence.
- Nothing is cut, wrapped or coloured if standard output is not a terminal.
- If the reader of a pipe ends first (`rumi debug logs | head`), the command ends quietly.
- Old names of commands work until the version that [the list](commands.md#old-names) names, and print the
  same on standard output.

## JSON

`--json` prints one document: an object for one thing, an array for a list, empty if there is nothing.
Commands whose output may go on print a line of JSON for each thing. Keys are in snake case, times in the
format of RFC 3339 in UTC, and amounts of money are numbers in `usd`. A chat is called `chat`; only the
audit log has `chat_id` and `nano_usd` (billionths of a USD). New keys may be added to objects
that have further fields.

[schemas.json](schemas.json) has a JSON Schema for each of these commands.

| one document | a line for each thing |
|---|---|
{forms}

## Exit codes

| code | meaning |
|---|---|
{codes}

`rumi chats search` and `rumi debug replay` end with 1 if nothing was found or a request differs, as `grep`
and `diff` do.
"""


def rendered() -> str:
    """Return the whole document."""
    reasons: dict[int, list[str]] = {}
    for reason, code in OF_TURNS.items():
        reasons.setdefault(code, []).append(f"`{reason}`")
    meanings = {
        0: "complete",
        RumiError.exit_code: "a failure; the sentence on standard error says which",
        UsageError.exit_code: "wrong usage, an unknown name, or an invalid configuration",
        OF_TURNS["timeout"]: "a limit has ended the turn or the task",
        EXIT_NO_ANSWER: "the model could not be reached, or refused",
        UNCONFIRMED: "an action was not done, because nobody could confirm it",
        INTERRUPTED: "interrupted or stopped",
        143: "`data backup` or `data restore` was ended by SIGTERM",
    }
    rows = []
    for code, meaning in sorted(meanings.items()):
        of_turns = f"; `chat -p` with the reason {', '.join(reasons[code])}" if code in reasons else ""
        rows.append(f"| {code} | {meaning}{of_turns} |")
    names = [*map(_named, DOCUMENTS)], [*map(_named, LINES)]
    forms = f"| {', '.join(names[0])} | {', '.join(names[1])} |"
    return TEXT.replace("{forms}", forms).replace("{codes}", "\n".join(rows))


def _named(command: str) -> str:
    return f"`{command}`"


if __name__ == "__main__":
    TARGET.write_text(rendered(), "utf-8")
