"""What conversations cost: model calls, prompt tokens, and how much of each prompt a server has seen before.

The real program against a model server on loopback, which keeps the last prompt and compares. Servers charge
less for the beginning of a prompt that repeats the one before, and answer sooner. Tokens are estimated as
Rumi does it; a prompt is its tools, then its messages, as they are sent.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from bench import house
from bench.rounds import row, spread
from rumi.agent.end_check import CONFIRMED
from rumi.agent.fitting import CHECK
from rumi.models.model import text_tokens
from rumi.store.journal.records import TaskRecord
from tests.agent.prompts.test_golden import FOLDER, tokens
from tests.fakes.fifty_pages import LARGE, PAGES, Island, fifty_pages
from tests.fakes.groq_server import KEY, Answer, Body, answered_calls, serve_groq
from tests.fakes.summaries import summary_of

TURNS = 200
CALLS = 20
READ = 30
AT_ONCE = 3
SMALL = 8192
SUMMARY = "no longer fits into your memory"
"""What only the instructions for a summary say."""

Conversation = Callable[[Body], Answer]


@dataclass
class Counted:
    """What came to the server in one conversation."""

    answer: Conversation
    calls: int = 0
    summaries: int = 0
    tokens: int = 0
    repeated: int = 0
    whole: int = 0
    shares: list[float] = field(default_factory=list)
    last: str = ""

    def __call__(self, body: Body) -> Answer:
        self.calls += 1
        prompt = sent(body)
        tokens = text_tokens(prompt)
        self.tokens += tokens
        if SUMMARY in str(body["messages"][0]["content"]):
            self.summaries += 1
            return Answer(summary_of("The user said small things, and all of it is done."))
        if self.last:
            same = common(self.last, prompt)
            self.shares.append(same / len(prompt))
            self.repeated += tokens * same // len(prompt)
            self.whole += same == len(self.last)
        self.last = prompt
        return self.answer(body)


def sent(body: Body) -> str:
    """A prompt as it is sent: its tools, then its messages."""
    return json.dumps(body.get("tools", [])) + "".join(map(json.dumps, body["messages"]))


def common(one: str, other: str) -> int:
    """How many characters both begin with."""
    if other.startswith(one):
        return len(one)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def trivial(body: Body) -> Answer:
    return Answer("Fine, and you?")


def command(body: Body) -> Answer:
    if answered_calls(body):
        return Answer("It says hello.")
    return Answer(calls=[("bash", '{"command": "echo hello"}')])


def many(body: Body) -> Answer:
    done = len(answered_calls(body))
    if done == CALLS:
        return Answer("All of them are done.")
    return Answer(calls=[("bash", json.dumps({"command": f"seq {done * 1000} {done * 1000 + 999}"}))])


def writing(body: Body) -> Answer:
    """Write a file; if asked for a check, look at the file, and confirm the answer."""
    calls = [
        ("write_file", '{"path": "a.py", "content": "print(1)\\n"}'),
        ("bash", '{"command": "python3 a.py"}'),
    ]
    done = sum(message["role"] == "tool" for message in body["messages"])
    asked = any(str(message["content"]).startswith(CHECK) for message in body["messages"])
    if done == 0 or (asked and done == 1):
        return Answer(calls=[calls[done]])
    return Answer(CONFIRMED if asked else "The script is in a.py, and it prints 1.")


class Reader:
    """Reads pages that lead from one to the next, some of them in each call, and cites them all."""

    def __init__(self, web: Island) -> None:
        self._web = web
        self._order = [1]
        for page in self._order:  # it grows while it is read
            linked = (page * step % PAGES + 1 for step in (2, 3, 5))
            self._order += [link for link in dict.fromkeys(linked) if link not in (*self._order, LARGE)]
        assert len(self._order) >= READ

    def __call__(self, body: Body) -> Answer:
        done = len(answered_calls(body))
        if done == READ:
            cited = " ".join(f"Page {number} says nothing [{number}]." for number in range(1, READ + 1))
            return Answer(cited)
        following = self._order[done : min(done + AT_ONCE, READ) if done else 1]
        return Answer(calls=[("web_fetch", json.dumps({"url": self._web.url(page)})) for page in following])


async def research() -> Counted:
    """One research with the real program, on a web of fifty pages."""
    async with fifty_pages() as web:
        counted = Counted(Reader(web))
        async with serve_groq(counted) as server:
            settings = {"sandbox.backend": "bubblewrap", "fetch.allow": [web.web.endpoint]}
            env = {"GROQ_API_KEY": KEY, "GROQ_BASE_URL": server.base_url}
            async with house.app(settings, env) as app:
                task = TaskRecord("web", "local", f"What is known? Begin at {web.url(1)}")
                done = await app.tasks.run(task, lambda step: None)
                assert (done.state, done.spent.sources) == ("succeeded", READ), done.answer
    return counted


async def talk(answer: Conversation, said: Sequence[str], flags: dict[str, object]) -> Counted:
    """One conversation with the real program."""
    counted = Counted(answer)
    settings = {
        "sandbox.backend": "bubblewrap",
        "memory.extract": False,
        "agent.max_turns": CALLS + 2,
        **flags,
    }
    async with serve_groq(counted) as server:
        env = {"GROQ_API_KEY": KEY, "GROQ_BASE_URL": server.base_url}
        async with house.app(settings, env) as app:
            for text in said:
                reply = await house.turn(app, "bench", text)
                assert not reply.startswith(("❌", "⚠️")), reply
    return counted


def show(name: str, counted: Counted) -> None:
    print(f"\n{name}")
    turns = counted.calls - counted.summaries
    row("  model calls", f"{counted.calls}")
    row(
        "  of these summaries",
        f"{counted.summaries} ({counted.summaries / counted.calls:.1%})",
        "at most 2 %",
    )
    row("  prompt tokens", f"{counted.tokens:,}")
    row("  of these repeated", f"{counted.repeated / counted.tokens:.1%}")
    row("  share of a prompt that repeats the one before", spread(counted.shares, "%", 100), "at least 90 %")
    row("  prompts that begin with all of the one before", f"{counted.whole} of {turns - 1}")


def show_parts() -> None:
    """Print the tokens of what stands before the history in every prompt."""
    for name in ("telegram-plain", "terminal-plain", "page-plain", "page-facts-and-skills"):
        parts = tokens(json.loads((FOLDER / f"{name}.json").read_text()))
        row(f"{name}: instructions and {len(parts) - 1} tools", f"{sum(parts.values()):,}")
        print("  " + ", ".join(f"{part} {count}" for part, count in parts.items()))


async def main() -> None:
    show_parts()
    write = ["Write a script that prints 1."]
    show(
        "one turn that writes a file, not checked",
        await talk(writing, write, {"agent.check_before_end": False}),
    )
    show("the same turn, checked before its end", await talk(writing, write, {}))
    said = [f"And how are you now, at {number}?" for number in range(TURNS)]
    small: dict[str, object] = {"model.context_tokens": SMALL}
    show(f"{TURNS} trivial turns", await talk(trivial, said, {}))
    show(f"{TURNS} turns with a command", await talk(command, said, {}))
    show(f"one turn with {CALLS} calls", await talk(many, said[:1], {}))
    show(f"a research of {READ} pages, {AT_ONCE} at once", await research())
    show(f"{TURNS} trivial turns, a model that takes {SMALL} tokens", await talk(trivial, said, small))
    show(f"{TURNS} turns with a command, a model that takes {SMALL} tokens", await talk(command, said, small))


if __name__ == "__main__":
    house.run(main)
