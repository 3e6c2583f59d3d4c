"""What the model does, by the user's words: so that each test says in its messages what shall happen.

`sh COMMAND` runs it and answers with what came of it; `say TEXT` answers; `send PATH` sends a file;
`drip N TEXT` answers with TEXT so many times, in pieces, slowly; `hang` and `fail` do not answer.
"""

import json

from rumi.agent.fitting import CHECK
from tests.fakes.groq_replies import Answer, Behaviour, Body, Fail, Hang, answered_calls, last_user_text

THINKS_S = 0.5
"""How long `mark` takes for each of its two calls."""

UNHEARD = "I heard: "

CANARY = "gsk_KeyCanaryKeyCanaryKeyCanaryKeyCanary"
"""A key that the server quotes in an error."""


def think(body: Body) -> Behaviour:
    """The reply to a request of the bot's."""
    word, _, rest = last_user_text(body).partition(" ")
    results = answered_calls(body)
    match word:
        case "mark":
            if results:
                return Answer(f"marked {rest}", pieces=1, pause_s=THINKS_S / 3)
            call = ("bash", json.dumps({"command": "tee mark.txt", "stdin": rest}))
            return Answer(calls=[call], pause_s=THINKS_S / 5)
        case "sh":
            if results:
                return Answer(results[-1])
            return Answer(calls=[("bash", json.dumps({"command": rest}))])
        case "send":
            if results:
                return Answer(results[-1])
            return Answer(calls=[("send_file", json.dumps({"path": rest}))])
        case "say":
            return Answer(rest)
        case "drip":
            number, _, text = rest.partition(" ")
            return Answer(text * int(number), pieces=15, pause_s=0.2)
        case "history":
            said = [m["content"] for m in body["messages"] if m["role"] == "user"]
            said = [text for text in said if not text.startswith(CHECK)]
            return Answer(" | ".join(said[:-1]) or "nothing before")
        case "hang":
            return Hang()
        case "fail":
            return Fail(400, f"Incorrect API key provided: {CANARY}, see https://api/?key={CANARY}")
    return Answer(f"{UNHEARD}{last_user_text(body)}")
