"""Asks users to approve a chat's parked tool calls, which wait for a `/yes 1` or `/no 1`."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from secrets import token_hex

from rumi.agent.permissions.parking import ParkedCalls, always_in, answers_in, in_words
from rumi.agent.permissions.standing import DAYS, offer_in
from rumi.chats.standing import Approve
from rumi.platform.texts import parked as parked_texts
from rumi.platform.texts import standing as standing_texts
from rumi.store.journal.records import Button, FinalReply, Parked
from rumi.texts import Language


def asking(
    reply: FinalReply, parked: ParkedCalls, language: Language, *, schedule: int = 0, now: float = 0.0
) -> FinalReply:
    """Append a question to a reply: whether to allow the parked calls that no message has asked about yet.

    The reply to a run of a `schedule` also repeats the questions of the schedule's earlier runs that have no
    answer yet. The caller stores the reply, and then records that the user was asked about these calls.
    """
    to_ask, waiting = parked.to_ask(), parked.still_waiting(schedule)
    if not to_ask and not waiting:
        return reply
    numbers = tuple(number for number, _ in to_ask)
    new = [parked_call for parked_call in parked.all if parked_call.number in numbers]
    repeated = [(one.number, one.text, int(max(0.0, now - one.at) // 86_400)) for one in waiting]
    texts = (
        reply.text,
        parked_texts.chat_needs_yes(language, to_ask),
        standing_texts.still_waiting(language, repeated),
        _always(language, (*new, *waiting)),
    )
    return replace(
        reply,
        text="\n\n".join(filter(None, texts)),
        asked=numbers,
        buttons=(*reply.buttons, *_buttons(language, (*new, *waiting))),
    )


def _always(language: Language, parked: Sequence[Parked]) -> str:
    """Say how to allow the calls of schedules in all runs, as far as this is possible."""
    offers = [(one, offer_in(one.offer)) for one in parked]
    rows = [(one.number, one.schedule, offer.grant.reads) for one, offer in offers if offer is not None]
    return standing_texts.always_offer(language, rows, DAYS)


def _buttons(language: Language, parked: Sequence[Parked]) -> tuple[Button, ...]:
    buttons = list[Button]()
    for one in parked:
        of_one = parked_texts.parked_buttons([(one.number, one.text)], "/yes", "/no")
        buttons += [Button(token_hex(8), label, words) for label, words in of_one]
        if one.offer:
            label, word = standing_texts.always_label(language, one.number), standing_texts.always(language)
            buttons.append(Button(token_hex(8), label, f"/yes {one.number} {word}"))
    return tuple(buttons)


@dataclass(frozen=True, slots=True)
class HeardAnswers:
    """The result of a `/yes` or `/no` command: `reply` is sent to the user, `words` to the model.

    If `words` is empty, no call was allowed, and no turn begins.
    """

    reply: str
    words: str = ""


async def hear(
    parked: ParkedCalls,
    answer: str,
    seen: Collection[int],
    language: Language,
    approve: Approve | None = None,
) -> HeardAnswers:
    """Apply an answer such as `yes 1 no 2` to the parked tool calls and return the result.

    The answer applies only to the calls in `seen`, about which the user was asked before answering.
    `approve` is called for calls that the answer allows in all runs of their schedule.
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
    always = [known[number] for number in always_in(answer) if number in known]
    # Before the answer counts as heard: after a kill in between, the message is handled again.
    allowed = [await approve(one) for one in always if approve is not None and one.state == "waits"]
    heard = await parked.hear([answer], known)
    late = sorted(answers.keys() - {parked_call.number for parked_call in heard})
    refused = [parked_call.number for parked_call in heard if parked_call.state == "refused"]
    not_open = parked_texts.calls_not_open(
        language,
        [number for number in late if number not in known],
        [number for number in late if number in known],
    )
    reply = "\n".join(filter(None, (*allowed, parked_texts.calls_refused(language, refused), not_open)))
    return HeardAnswers(reply, in_words(heard) if len(refused) < len(heard) else "")
