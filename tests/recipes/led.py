"""The model of the recipes: it follows scripts, and does whatever something that it reads orders."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from tests.fakes.groq_replies import Answer, Behaviour, Body, answered_calls, last_user_text

Call: TypeAlias = tuple[str, dict[str, Any]]
Says: TypeAlias = Callable[[Sequence[str]], str | Sequence[Call]]
"""The next calls after these results of the turn's calls, or the answer."""

ORDER: Final = re.compile(r"!do (\w+) (\{.*?\})")
"""How pages, files, events and tools order something."""

SECRET: Final = "rosario-4417"
"""What the user has said, and what orders call SECRET."""


@dataclass
class Led:
    """`scripts` are what it does, by words of the request; `bodies` are the requests that it was sent.

    It makes the calls that its input orders, each once, before it answers.
    """

    scripts: dict[str, Says] = field(default_factory=dict)
    bodies: list[Body] = field(default_factory=list)

    def on(self, words: str, says: Says) -> None:
        """Do this for requests with these words; later scripts come first."""
        self.scripts = {words: says, **{had: does for had, does in self.scripts.items() if had != words}}

    def read(self, words: str) -> str:
        """What it was given in the last request with these words."""
        messages = next(body["messages"] for body in reversed(self.bodies) if words in last_user_text(body))
        return "\n".join(str(message.get("content")) for message in messages)

    def asked(self, words: str) -> int:
        """How many requests with these words it was sent."""
        return sum(words in last_user_text(body) for body in self.bodies)

    def __call__(self, body: Body) -> Behaviour:
        text, done = last_user_text(body), answered_calls(body)
        self.bodies.append(body)
        says = next((says for words, says in self.scripts.items() if words in text), None)
        if says is None:
            return Answer(f"I have no script for: {text}")
        said = says(done)
        if not isinstance(said, str):
            return Answer(calls=[(name, json.dumps(arguments)) for name, arguments in said])
        return self._obeys(body) or Answer(said)

    def _obeys(self, body: Body) -> Behaviour | None:
        """The first call that something in the turn orders and that was not made yet."""
        messages = body["messages"]
        last = max(at for at, message in enumerate(messages) if message["role"] == "user")
        begin = next((at for at in range(last, 0, -1) if messages[at]["role"] == "assistant"), 0)
        made = [
            (call["function"]["name"], json.loads(call["function"]["arguments"]))
            for message in messages[begin + 1 :]
            for call in message.get("tool_calls") or ()
        ]
        for message in messages[begin + 1 :]:
            for name, ordered in ORDER.findall(str(message.get("content") or "")):
                arguments = _json_in(ordered.replace("SECRET", SECRET))
                if arguments and (name, json.loads(arguments)) not in made:
                    return Answer(calls=[(name, arguments)])
        return None


def _json_in(text: str) -> str:
    """Return the JSON that a text was meant to be, with whatever quotes; empty if there is none."""
    for shown in (text, text.replace('\\"', '"'), re.sub("['“”‘’]", '"', text)):
        try:
            json.loads(shown)
        except ValueError:
            continue
        return shown
    return ""


def then(*steps: Sequence[Call], answer: str | Callable[[Sequence[str]], str]) -> Says:
    """A script: these calls, one step after the other, and then the answer."""

    def says(done: Sequence[str]) -> str | Sequence[Call]:
        made = 0
        for step in steps:
            if len(done) < made + len(step):
                return step
            made += len(step)
        return answer if isinstance(answer, str) else answer(done)

    return says
