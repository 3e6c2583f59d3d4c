"""Models that misbehave, in the whole program: each turn ends soon, and its user can use the reply.

    python -m bench.agent_misbehaving

`tests/agent/test_misbehaving.py` proves what such a turn does inside; this prints what a person reads.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import trio

from bench import house
from bench.agent_model import Call
from tests.agent.test_misbehaving import HARMONY
from tests.fakes.groq_replies import closes
from tests.fakes.groq_server import (
    KEY,
    Answer,
    Behaviour,
    Body,
    Raw,
    answered_calls,
    serve_groq,
    tool_use_failed,
)

Model = Callable[[Body], Behaviour]
TURN_S = 15
ENDS_S = 30
SHOWN = 230
MEGA = 1_000_000


def call(name: str, **arguments: object) -> Call:
    return name, json.dumps(arguments, ensure_ascii=False)


def sh(command: str, stdin: str = "") -> Call:
    return call("bash", command=command, **({"stdin": stdin} if stdin else {}))


SO_FAR = Answer("This is what I found so far.")


def once(*calls: Call) -> Model:
    """Make these calls, then answer with the last result."""

    def model(body: Body) -> Behaviour:
        results = answered_calls(body)
        if closes(body):
            return SO_FAR
        return Answer(f"It gave: {results[-1][:200]}") if results else Answer(calls=calls)

    return model


def always(behaviour: Behaviour, closing: Behaviour = SO_FAR) -> Model:
    return lambda body: closing if closes(body) else behaviour


def ever_new(make: Callable[[int], Answer]) -> Model:
    return lambda body: Answer("So far: nothing.") if closes(body) else make(len(answered_calls(body)))


def in_order(*behaviours: Behaviour) -> Model:
    rest = iter(behaviours)
    return lambda _: next(rest)


def thinking(pause_s: float, times: int, size: int) -> Raw:
    """A stream of thoughts and no word."""
    choice = {"index": 0, "delta": {"reasoning": "hmm " * (size // 4)}, "finish_reason": None}
    event = b"data: " + json.dumps({"id": "c", "choices": [choice]}).encode() + b"\n\n"
    return Raw(event * times, pause_s=pause_s, step=len(event))


@dataclass(frozen=True, slots=True)
class Case:
    """A model, and what its user must read in the reply."""

    name: str
    model: Model
    reads: str


LOOP, ERRORS, TIME = "Detected a loop", "Too many errors in a row", "ran out of time"
FAILED = "The model did not answer: .+ Send /retry"
HARMONY_CALL = (
    '<|channel|>commentary to=functions.bash <|constrain|>json<|message|>{"command": "echo 4"}<|call|>'
)
CASES = (
    Case("a tool that is not there", once(call("read_mail", folder="inbox")), "there is no tool 'read_mail'"),
    Case("the tool of another program", once(call("container.exec", cmd=["ls"])), "there is no tool"),
    Case("a tool that is not there, for ever", always(Answer(calls=[("mail", "{}")])), f"so far.*{LOOP}"),
    Case("ever new tools that are not there", ever_new(lambda n: Answer(calls=[(f"tool{n}", "{}")])), ERRORS),
    Case(
        "leftovers of harmony", lambda _: Answer(f"{HARMONY}It is **4**.<|return|>"), r"^It is \*\*4\*\*\.$"
    ),
    Case("a call as harmony in the text", in_order(Answer(HARMONY_CALL), Answer("It is 4.")), "^It is 4"),
    Case("nothing but thoughts in harmony", lambda _: Answer("<|channel|>analysis<|message|>Hm"), FAILED),
    Case("arguments that break off", always(Answer(calls=[("bash", '{"command": ')])), f"so far.*{LOOP}"),
    Case("arguments that are a list", once(("bash", '["ls", "-l"]')), "must be a JSON object"),
    Case(
        "a call that the server cannot read",
        lambda _: tool_use_failed("{nonsense"),
        "server cannot read. Send /retry",
    ),
    Case("a command that is a list", once(call("bash", command=["ls", "-l"])), "`command`, a string"),
    Case(
        "unknown arguments beside known ones", once(call("bash", command="echo 4", timeout=9)), "output:\n4"
    ),
    Case("only unknown arguments", once(call("bash", cmd="echo 4")), "bash needs `command`"),
    Case("the same call for ever", always(Answer(calls=[sh("echo 4")])), f"so far.*{LOOP}"),
    Case("ever new calls", ever_new(lambda n: Answer(calls=[sh(f"echo {n}")])), "Reached the maximum"),
    Case("50 calls at once", once(*(sh(f"echo {n}") for n in range(50))), "It gave: "),
    Case("a command of 1 MB", once(sh(f"echo {'x' * MEGA}")), "a command of 1000005 bytes"),
    Case("standard input of 1 MB", once(sh("wc -c", "x" * MEGA)), str(MEGA)),
    Case(
        "a call in the closing answer",
        always(Answer(calls=[sh("echo 4")]), Answer(calls=[sh("echo 5")])),
        f"^⚠️ {LOOP}",
    ),
    Case(
        "words and a call in the closing answer",
        always(Answer(calls=[sh("echo 4")]), Answer("It is 4.", calls=[sh("echo 5")])),
        f"It is 4.*{LOOP}",
    ),
    Case(
        "an answer cut by length",
        in_order(Answer("It is ", finish_reason="length"), Answer("4.")),
        "^It is 4.$",
    ),
    Case("an answer always cut by length", lambda _: Answer("and ", finish_reason="length"), "and .*⚠️"),
    Case("an empty answer", lambda _: Answer(""), FAILED),
    Case("an answer of blanks", lambda _: Answer(" \n\n "), FAILED),
    Case("endless reasoning", always(thinking(0.05, 10_000, 200)), f"so far.*{TIME}"),
    Case("10 MB of reasoning", lambda _: thinking(0, 1000, 10_000), FAILED),
    Case("an answer of 1 MB", lambda _: Answer("and so on " * (MEGA // 10), pieces=1000), "and so on"),
)


async def show(settings: Mapping[str, object]) -> int:
    """Print each reply. Return how many cannot be used."""
    model: Model = CASES[0].model
    wrong = 0
    print("\nmodels that misbehave, and what the user reads")
    async with serve_groq(lambda body: model(body)) as server:
        flags = {
            "language": "en",
            "memory.extract": False,
            "model.fallbacks": [],
            "agent.turn_timeout_s": TURN_S,
            **settings,
        }
        env = {"GROQ_API_KEY": KEY, "GROQ_BASE_URL": server.base_url}
        async with house.app(flags, env) as app:
            for number, case in enumerate(CASES):
                model = case.model
                began = time.perf_counter()
                reply = ""
                with trio.move_on_after(ENDS_S):
                    reply = await house.turn(app, f"m{number}", "What is 2 + 2?")
                took = time.perf_counter() - began
                good = re.search(case.reads, reply, re.DOTALL) is not None and "<|" not in reply
                wrong += not good
                told = " ".join(reply.split())
                more = f" [… {len(told) - SHOWN} more]" if len(told) > SHOWN else ""
                print(f"  {case.name} ({took:.1f} s){'' if good else ': WRONG'}\n    {told[:SHOWN]}{more}")
    print(f"  replies that cannot be used: {wrong} of {len(CASES)}")
    return wrong


async def main() -> None:
    await show({"sandbox.backend": "bubblewrap"})


if __name__ == "__main__":
    house.run(main)
