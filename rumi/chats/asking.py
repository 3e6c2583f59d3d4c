"""Asks users to approve a chat's parked tool calls, which wait for a `/yes 1` or `/no 1`."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from secrets import token_hex

from rumi.agent.permissions.parking import ParkedCalls, answers_in, in_words
from rumi.platform.texts import parked as parked_texts
from rumi.store.journal.records import Button, FinalReply
from rumi.texts import Language


def asking(reply: FinalReply, parked: ParkedCalls, language: Language) -> FinalReply:
    """Append a question to a reply: whether to allow the parked calls that no message has asked about yet.

    The caller stores the reply, and then records that the user was asked about these calls.
    """
    to_ask = parked.to_ask()
    if not to_ask:
        return reply
    numbers = tuple(number for number, _ in to_ask)
    return replace(
        reply,
        text="\n\n".join(filter(None, (reply.text, parked_texts.chat_needs_yes(language, to_ask)))),
        asked=numbers,
        buttons=(
            *reply.buttons,
            *(
                Button(token_hex(8), label, words)
                for label, words in parked_texts.parked_buttons(to_ask, "/yes", "/no")
            ),
        ),
    )


@dataclass(frozen=True, slots=True)
class HeardAnswers:
    """The result of a `/yes` or `/no` command: `reply` is sent to the user, `words` to the model.

    If `words` is empty, no call was allowed, and no turn begins.
    """

    reply: str
    words: str = ""


async def hear(parked: ParkedCalls, answer: str, seen: Collection[int], language: Language) -> HeardAnswers:
    """Apply an answer such as `yes 1 no 2` to the parked tool calls and return the result.

    The answer applies only to the calls in `seen`, about which the user was asked before answering.
    """
    known = {
        parked_call.number: parked_call
        for parked_call in parked.all
        if parked_call.number in seen and parked_call.call
    }
    answers = answers_in(answer)
    if not answers:
        waiting = [parked_call.number for parked_call in known.values() if parked_call.state == "waits"]
        return HeardAnswers(parked_texts.answer_usage(language, waiting))
    heard = await parked.hear([answer], known)
    late = sorted(answers.keys() - {parked_call.number for parked_call in heard})
    refused = [parked_call.number for parked_call in heard if parked_call.state == "refused"]
    not_open = parked_texts.calls_not_open(
        language,
        [number for number in late if number not in known],
        [number for number in late if number in known],
    )
    reply = "\n".join(filter(None, (parked_texts.calls_refused(language, refused), not_open)))
    return HeardAnswers(reply, in_words(heard) if len(refused) < len(heard) else "")
