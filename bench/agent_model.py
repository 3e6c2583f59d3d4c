"""The scripted model of `bench.agent`: it writes what models ordinarily write, and knows only what it reads.

A script is a generator. It yields calls, gets their results, and returns the answer; so each step depends on
what the model has read. The model uses a tool only if the tool's description says what it is for, an argument
only if the tool declares it, and has a habit (such as trying another way after a refusal) only if the
instructions ask for it. So a fault in a result, a description or the instructions changes what the model
does. A model that does not find what it needs is lost: it gives up, and its task is not finished.
"""

import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Call: TypeAlias = tuple[str, str]
"""The name of a tool, and the arguments as JSON."""
Script: TypeAlias = "Generator[Call | Sequence[Call], Seen, str]"
Part: TypeAlias = "Generator[Call | Sequence[Call], Seen, Seen]"
"""A part of a script, which gives the last results."""

Habit: TypeAlias = Literal["name", "retries", "checks", "cites", "distrusts", "language"]

HABITS: Mapping[Habit, str] = {
    "name": r"You are Rumi",
    "retries": r"(another|different|other) way|alternative",
    "checks": r"After a change|check (it|them|what)|verify",
    "cites": r"(address|source|URL)[^.\n]* (web|fact)|cite|fact from the web",
    "distrusts": r"(never|not|no)[^.\n]* instructions",
    "language": r"user's language",
}
"""What the instructions say where they ask for a habit."""

PURPOSES: Mapping[str, str] = {
    "bash": r"\bbash\b|shell|command",
    "bash_output": r"output|wait",
    "bash_stop": r"stop|end|kill",
    "read_file": r"read",
    "edit_file": r"replace|edit|change",
    "write_file": r"write|create",
    "web_fetch": r"page|address|url",
    "remember": r"save|remember|fact",
    "todo": r"step|item|list|plan",
}
"""What a description says where it tells what a tool is for."""

LIMIT = re.compile(r"command may take (\d+)|(\d+) s(?:econds)? (?:a|per) command")
IDS = (
    r"(?i)\bid\b\W{0,4}(\w+)",
    r"bash_output\W+(?:id\W+)?(\w*\d\w*)",
    r"(?i)\b(?:job|number|as|background)\W{1,3}(\w*\d\w*)",
)
"""How a result may name the id of a command in the background."""

KEPT = re.compile(r"/tmp/output/[\w./-]*\w")
SCRIPT_FILE = re.compile(r"(^|[;&|] *)\./(\S+)")
HEREDOC = re.compile(r"(.*)python3 - <<'(\w+)'(.*?)\n(.*?\n)\2\n?(.*)", re.DOTALL)


class Lost(Exception):
    """The model does not find what it needs, and gives up."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The results of the model's last calls."""

    results: Sequence[str]

    @property
    def text(self) -> str:
        return "\n".join(self.results)

    def has(self, pattern: str) -> bool:
        return re.search(pattern, self.text, re.MULTILINE) is not None

    def find(self, pattern: str) -> str:
        """Return what the pattern's last group matches; without a match, the model is lost."""
        found = re.search(pattern, self.text, re.MULTILINE)
        if found is None:
            raise Lost(f"{pattern!r} is not in: {self.text[-700:]}")
        return found[found.re.groups]

    def fill(self, text: str, **patterns: str) -> str:
        """Return a text with what patterns find: `fill("It is {n}.", n=r"total (.+)")`."""
        return text.format(**{name: self.find(pattern) for name, pattern in patterns.items()})

    def all(self, pattern: str) -> list[str]:
        """Return all that the pattern's group matches; without a match, the model is lost."""
        return [row[0] for row in self.rows(pattern)]

    def rows(self, pattern: str) -> list[tuple[str, ...]]:
        """Return what the pattern's groups match, for each match."""
        self.find(pattern)
        return [found.groups() for found in re.finditer(pattern, self.text, re.MULTILINE)]

    @property
    def failed(self) -> bool:
        """True if the command ended with an error, or was refused or killed."""
        return self.refused or self.has(r"exit code [1-9]|timed out|^not run")

    @property
    def refused(self) -> bool:
        return self.has(r"^Refused|not on the list")


@dataclass(slots=True)
class View:
    """What the model sees besides results: instructions and tools. Scripts make their calls with it."""

    instructions: str = ""
    tools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    message: str = ""

    def asked(self, pattern: str) -> str:
        """Return what a pattern matches in the user's message."""
        return Seen([self.message]).find(pattern)

    def known(self, pattern: str) -> str:
        """Return what a pattern matches in the instructions."""
        return Seen([self.instructions]).find(pattern)

    def told(self, habit: Habit) -> bool:
        return re.search(HABITS[habit], self.instructions, re.IGNORECASE) is not None

    def offers(self, name: str, *arguments: str) -> bool:
        """Return True if the prompt offers this tool with these arguments, and says what it is for."""
        tool = self.tools.get(name)
        if tool is None or not re.search(PURPOSES.get(name, r"\w"), tool["description"], re.IGNORECASE):
            return False
        return set(arguments) <= set(tool["parameters"].get("properties", {}))

    def call(self, name: str, **arguments: object) -> Call:
        if not self.offers(name, *arguments):
            raise Lost(f"no description tells what {name} with {', '.join(arguments)} is for")
        return name, json.dumps(arguments, ensure_ascii=False)

    def read(self, path: str, **more: int) -> Call:
        return self.call("read_file", path=path, **more)

    def write(self, path: str, content: str) -> Call:
        return self.call("write_file", path=path, content=content)

    def edit(self, path: str, old: str, new: str) -> Call:
        if self.offers("edit_file", "old_text"):
            return self.call("edit_file", path=path, old_text=old, new_text=new)
        return self.call("edit_file", path=path, edits=[{"old_text": old, "new_text": new}])

    def fetch(self, url: str) -> Call:
        return self.call("web_fetch", url=url)

    def bash(self, command: str, takes_s: int = 0) -> Call:
        """Run a command. If it may take longer than a command may, give it time, if the tool takes that."""
        limit = LIMIT.search(self.instructions)
        most = int(next(filter(None, limit.groups()))) if limit else 30
        if takes_s > most and self.offers("bash", "timeout_s"):
            return self.call("bash", command=command, timeout_s=2 * takes_s)
        return self.call("bash", command=command)

    def run(self, command: str, takes_s: int = 0) -> Part:
        """Run a command; if it is refused, try it in the way that the refusal names."""
        seen = yield self.bash(command, takes_s)
        if seen.refused and self.told("retries"):
            if seen.has(r"bash FILE") and SCRIPT_FILE.search(command):
                seen = yield self.bash(SCRIPT_FILE.sub(r"\1bash \2", command), takes_s)
            elif seen.has(r"script file|stdin|simpl") and (found := HEREDOC.fullmatch(command)):
                before, _, more, code, after = found.groups()
                lines = f"cat > script.py <<'EOF'\n{code}EOF\n{before}python3 script.py{more}\n{after}"
                seen = yield self.bash(lines, takes_s)
        return seen

    def needs(self, command: str, takes_s: int = 0) -> Part:
        """Run a command that has to succeed."""
        seen = yield from self.run(command, takes_s)
        if seen.failed:
            raise Lost(f"{command!r} failed: {seen.text[-500:]}")
        return seen

    def search(self, seen: Seen, pattern: str, command: str = "") -> Part:
        """Look for a pattern in a long output: in the result, the file that keeps it, or a second run."""
        if seen.has(pattern):
            return seen
        kept = KEPT.search(seen.text)
        if kept is not None:
            seen = yield self.bash(f"grep -nE '{pattern}' {kept[0]}")
        elif command:
            seen = yield self.bash(f"{command} 2>&1 | grep -E '{pattern}'")
        seen.find(pattern)
        return seen

    def background(self, command: str, log: str) -> Generator[Call, Seen, str]:
        """Start a command in the background; return its id, or "" if bash has no way for it but `&`."""
        if not self.offers("bash", "background"):
            yield self.bash(f"nohup {command} > {log} 2>&1 &")
            return ""
        seen = yield self.call("bash", command=command, background=True)
        named = next((pattern for pattern in IDS if seen.has(pattern)), IDS[0])
        return seen.find(named)

    def output(self, id: str, log: str, wait_s: int = 5) -> Call:
        if not id:
            return self.bash(f"sleep {wait_s}; cat {log}")
        return self.call("bash_output", id=self._id("bash_output", id), wait_s=wait_s)

    def stop(self, id: str, name: str) -> Call:
        if not id:
            return self.bash(f"pkill -f '{name}' || kill %1")
        return self.call("bash_stop", id=self._id("bash_stop", id))

    def todo(self, steps: Sequence[str], done: int) -> Call:
        """Set the list of steps, of which the first ones are done, in the fields that the tool declares."""
        ((name, items),) = (
            (name, about["items"]["properties"])
            for name, about in self.tools["todo"]["parameters"]["properties"].items()
            if about.get("type") == "array"
        )
        state = next(field for field, about in items.items() if "enum" in about)
        text = next(field for field, about in items.items() if field != state)
        states = items[state]["enum"]
        last = next(value for value in states if value.startswith(("done", "complete", "finished")))
        rows = [{text: step, state: last if n < done else states[0]} for n, step in enumerate(steps)]
        return self.call("todo", **{name: rows})

    def _id(self, tool: str, id: str) -> object:
        kind = self.tools[tool]["parameters"]["properties"]["id"].get("type")
        return int(id) if kind == "integer" else id


MakesScript: TypeAlias = Callable[[View], Script]
"""Makes the script that answers a message."""
