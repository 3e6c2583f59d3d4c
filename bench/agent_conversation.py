"""The model server of `bench.agent`: passes each request to its task's script, and counts what it costs."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.agent_model import Call, Lost, MakesScript, Script, Seen, View
from bench.cost import sent
from rumi.models.model import text_tokens
from tests.fakes.groq_replies import closes
from tests.fakes.groq_server import Answer, Body


@dataclass(slots=True)
class Conversation:
    """The model's side of one task: a script for each message, and what its calls cost."""

    turns: Sequence[tuple[str, MakesScript]]
    """Messages of the user, each with the function that makes its script from a `View`."""
    calls: int = 0
    prompt: int = 0
    completion: int = 0
    wrong: str = ""
    _view: View = field(default_factory=View)
    _turn: int = -1
    _script: "Script | None" = None
    _answer: str = ""

    @property
    def ended(self) -> bool:
        """True if the script of the last message came to its end."""
        return self._turn == len(self.turns) - 1 and self._script is None

    def turn_of(self, body: Body) -> int:
        """Return the number of the message that a request is about; -1 if it is none of this task."""
        for message in reversed(body["messages"]):
            if message["role"] == "user":
                for number, (says, _) in enumerate(self.turns):
                    if says in str(message["content"]):
                        return number
        return -1

    def reply(self, body: Body) -> Answer:
        self.calls += 1
        self.prompt += text_tokens(sent(body))
        answer = self._reply(body)
        self.completion += text_tokens(answer.text) + sum(text_tokens("".join(call)) for call in answer.calls)
        return answer

    def _reply(self, body: Body) -> Answer:
        self._view.instructions = str(body["messages"][0]["content"])
        self._view.tools = {tool["function"]["name"]: tool["function"] for tool in body.get("tools", ())}
        if set(self._view.tools) == {"declare_changes"}:
            return Answer(calls=[("declare_changes", '{"calls": []}')])
        if not self._view.tools:
            return Answer("Nothing to add.")
        if closes(body):
            self.wrong = self.wrong or "the turn was ended before the model had finished"
            return Answer("I have not finished.")
        turn = self.turn_of(body)
        try:
            if turn != self._turn:
                says, script = self.turns[turn]
                self._view.message = says
                self._turn, self._script = turn, script(self._view)
                return _as_answer(next(self._script))
            if self._script is None:  # asked once more, for example to check: the answer stays
                return Answer(self._answer)
            return _as_answer(self._script.send(Seen(_last_results(body))))
        except StopIteration as end:
            self._script, self._answer = None, end.value
        except Exception as error:  # noqa: BLE001  a script that fails must not end the server
            self.wrong = str(error) if isinstance(error, Lost) else repr(error)
            self._script, self._answer = None, "I could not do it."
        return Answer(self._answer)


def _last_results(body: Body) -> list[str]:
    """Return the results of the last reply's calls."""
    results: list[str] = []
    for message in reversed(body["messages"]):
        if message["role"] == "assistant":
            break
        if message["role"] == "tool":
            results.append(message["content"])
    return results[::-1]


def _as_answer(calls: Call | Sequence[Call]) -> Answer:
    one = isinstance(calls, tuple) and isinstance(calls[0], str)
    return Answer(calls=[calls] if one else calls)  # type: ignore[list-item, arg-type]


@dataclass(eq=False)
class Model:
    """The model server's script: it gives each request to the conversation that it belongs to."""

    running: list[Conversation] = field(default_factory=list)

    def __call__(self, body: Body) -> Answer:
        for conversation in self.running:
            if conversation.turn_of(body) >= 0:
                return conversation.reply(body)
        return Answer("I do not know what this is about.")
