"""Syntax checks of files that a file tool has written: a new error is part of the tool's result.

The parsers run inside the sandbox, on a copy of the content, and execute nothing of it. Hostile content can
exhaust or crash a parser, so no parser of the host reads it. A parser that is missing, fails or takes too
long says nothing.
"""

import re
from collections.abc import Awaitable, Callable
from pathlib import PurePosixPath
from typing import Final, TypeAlias

from rumi.errors import RumiError
from rumi.platform.untrusted_text import one_line
from rumi.sandbox.engine import Command, CommandResult

MOST_PARSED: Final = 300_000
"""Maximum size of a file that is checked, in bytes."""

CHECK_S: Final = 10.0
_CPU_S: Final = 3
_MEMORY_KB: Final = 400_000
_MESSAGE_CHARS: Final = 200
_OUTPUT_LIMIT: Final = 2_000

RunCommand: TypeAlias = Callable[[Command], Awaitable[CommandResult]]

_KINDS: Final = {
    ".py": "python",
    ".pyi": "python",
    ".json": "json",
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".sh": "shell",
    ".bash": "shell",
}
_WITH_COMMENTS: Final = re.compile(r"(?:^|/)(?:[tj]sconfig[^/]*|\.vscode/[^/]*)\.json$")
"""Files named as JSON whose programs accept comments and trailing commas."""

_SHEBANG: Final = re.compile(
    rb"#!\s*(?:\S*/)?(?:env\s+)?(?P<program>python3?|bash|dash|sh)(?:[\d.]*)\s*(?:\n|\s-)"
)

# Only the limits of the shell bound the parser's own process: the sandbox ends all processes at a time limit.
_SCRIPT: Final = f"""\
ulimit -t {_CPU_S}; ulimit -v {_MEMORY_KB} 2>/dev/null
if [ "$1" = shell ]; then LC_ALL=C; export LC_ALL; exec bash --norc --noprofile -n; fi
command -v python3 >/dev/null || exit 0
exec python3 "$3" -c "$2" "$1" 2>/dev/null
"""

_PARSE: Final = """\
import re, sys, warnings
warnings.simplefilter("ignore")
kind, data = sys.argv[1], sys.stdin.buffer.read()
line, message = 0, ""
try:
    if kind == "python":
        compile(data, "file", "exec", dont_inherit=True)
    elif kind == "json":
        import json
        json.loads(data)
    elif kind == "toml":
        import tomllib
        tomllib.loads(data.decode())
    else:
        import yaml
        for _ in yaml.parse(data, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            pass
except SyntaxError as error:
    line, message = error.lineno or 0, error.msg
except ValueError as error:
    if kind == "json" and hasattr(error, "lineno"):
        line, message = error.lineno, error.msg
    elif kind == "toml" and type(error).__name__ == "TOMLDecodeError":
        message = re.sub(r" \\(at .*\\)$", "", str(error))
        line = int((re.findall(r"\\(at line (\\d+)", str(error)) or [data.count(b"\\n") + 1])[-1])
except Exception as error:
    if getattr(error, "problem_mark", None) is not None:
        line, message = error.problem_mark.line + 1, str(error.problem)
if message:
    print(f"line {line}: {message}")
"""

_LINE: Final = re.compile(r"line (?P<line>\d+): (?P<message>.+)")


def kind_of_syntax(path: str, content: bytes) -> str:
    """Return the kind of parser for a file, by its name or its first line; empty if there is none."""
    suffix = PurePosixPath(path).suffix.lower()
    if _WITH_COMMENTS.search(path):
        return ""
    if suffix or not (found := _SHEBANG.match(content[:200])):
        return _KINDS.get(suffix, "")
    return "python" if found["program"].startswith(b"python") else "shell"


async def syntax_note(run: RunCommand, path: str, before: bytes | None, after: bytes) -> str:
    """Return a line about a syntax error that a file has now and did not have before; otherwise "".

    `before` is None for a new file.
    """
    kind = kind_of_syntax(path, after)
    if not kind:
        return ""
    error = await _error(run, kind, after)
    if error is None:
        return ""
    # The line of an old error may have moved, so only the messages are compared.
    old = None if before is None else await _error(run, kind, before)
    if old is not None and old[1] == error[1]:
        return ""
    return f"\nNew syntax error, line {error[0]}: {error[1]}"


async def _error(run: RunCommand, kind: str, content: bytes) -> tuple[int, str] | None:
    """Return the line and the message of the first syntax error, or None."""
    if len(content) > MOST_PARSED:
        return None
    # Isolated from the workspace; YAML's parser is the only one that is an installed package.
    argv = ("sh", "-c", _SCRIPT, "sh", kind, _PARSE, "-I" if kind == "yaml" else "-IS")
    command = Command(argv, content, reads=True, output_limit=_OUTPUT_LIMIT, timeout_s=CHECK_S)
    try:
        result = await run(command)
    except RumiError:  # the file is written: a check that cannot run is no failure of the call
        return None
    if result.ended != "exited" or (kind == "shell" and result.exit_code not in (1, 2)):
        return None
    found = _LINE.search(result.stderr.text() if kind == "shell" else result.stdout.text())
    return None if found is None else (int(found["line"]), one_line(found["message"], _MESSAGE_CHARS))
