"""Texts for people about bots."""

from collections.abc import Sequence
from typing import Final, Literal

from rumi.platform.openat import shown
from rumi.platform.texts.operating import short_duration
from rumi.platform.texts.parked import numbered, parked_buttons, parked_question
from rumi.platform.texts.tasks import shortly
from rumi.platform.texts.words import in_words
from rumi.texts import Language, Text, gettext, translate


def bot_iteration(language: Language, number: int, most: int) -> str:
    """Say which iteration begins."""
    of = f"{number}/{most}" if most else str(number)
    return gettext(language, "{of} · iteration", of=of)


def bot_asks(
    language: Language,
    name: str,
    question: str,
    parked: Sequence[tuple[int, str]] = (),
    *,
    here: bool = False,
    waits: bool = False,
) -> str:
    """Return a message with a bot's question and the calls that need approval; empty if there are neither.

    If `here` is true, the reader answers in this terminal and needs no command. If `waits` is true, the bot
    pauses until the answer arrives.
    """
    parts, command = [], "" if here else f"/bot {name} "
    if question:
        answer = "." if here else f": {command}{gettext(language, 'YOUR ANSWER')}"
        parts.append(
            gettext(
                language,
                "❓ The bot {name} asks:\n\n{question}\n\nIt waits for your answer{answer}",
                name=name,
                question=question,
                answer=answer,
            )
        )
    if parked:
        meanwhile = gettext(language, ", and works on something else meanwhile")
        head = gettext(language, "🔒 The bot {name} needs your yes", name=name)
        head += ":" if waits else f"{meanwhile}:"
        yes = gettext(language, "yes")
        parts.append(parked_question(language, head, parked, f"{command}{yes}", f"{command}no"))
    if parts and here:
        parts.append(
            gettext(language, "Type it here, or in another terminal: rumi bot wake {name} ANSWER", name=name)
        )
    return "\n\n".join(parts)


def asks_in_words(message: str) -> bool:
    """Return True if a message of `bot_asks` has a question, and does not only ask about parked calls."""
    return message.startswith("❓")


def this_terminal(language: Language) -> str:
    """Return the words "this terminal", for use in sentences about a bot that runs there."""
    return gettext(language, "this terminal")


def bot_buttons(
    language: Language, name: str, options: Sequence[str], parked: Sequence[tuple[int, str]]
) -> tuple[tuple[str, str], ...]:
    """Return the buttons below a bot's message, each as its label and the command that a press sends."""
    yes = gettext(language, "yes")
    said = tuple((option, f"/bot {name} {option}") for option in options)
    return said + parked_buttons(parked, f"/bot {name} {yes}", f"/bot {name} no")


def bot_plan_lapsed(language: Language, why: Literal["expired", "calls", "money"], question: str) -> str:
    """Say why a bot's approved plan no longer applies, and ask whether to approve the plan again."""
    reason = {
        "expired": gettext(language, "The plan has expired."),
        "calls": gettext(language, "The model calls of the plan are used up."),
        "money": gettext(language, "The money of the plan is used up."),
    }[why]
    again = gettext(language, "The same once more?")
    return f"{reason} {again} {question}"


def bot_sleeps(language: Language, seconds: float) -> str:
    """Say how long a bot sleeps, for a person who watches the bot in a terminal."""
    for_ = short_duration(seconds)
    return gettext(language, "sleeps {duration}; Enter wakes it", duration=for_)


def bot_unanswered(language: Language, text: str, parked: Sequence[tuple[int, str]]) -> str:
    """Return a report, followed by the tool calls that were not executed because nobody approved them."""
    if not parked:
        return text
    head = gettext(language, "🔒 Not done, because nobody has said yes:")
    return "\n\n".join([text, head, *(numbered(number, call) for number, call in parked)])


def bot_report(language: Language, summary: str, rows: Sequence[tuple[bool, str, str, str]]) -> str:
    """Return the report of a bot's session: the summary, then each claim and the result of its check.

    Each row has four values: True if the claim is true, the kind of the claim, the claim, and the finding of
    the check.
    """
    if not rows:
        nothing = gettext(language, "Not proved: the bot claimed nothing.")
        return f"{summary}\n\n{nothing}"
    kinds = {
        "file": gettext(language, "file"),
        "command": gettext(language, "command"),
        "test": gettext(language, "test"),
        "url": gettext(language, "page"),
    }
    proved = gettext(language, "proved")
    not_true = gettext(language, "NOT TRUE")
    lines = [
        f"{'✅' if true else '❌'} {kinds.get(kind, kind)} `{shortly(what)}`: "
        f"{proved if true else not_true} ({_found(language, found)})"
        for true, kind, what, found in rows
    ]
    head = gettext(language, "What the bot claimed:")
    return "\n".join([summary, "", head, *(f"- {line}" for line in lines)])


def _found(language: Language, found: str) -> str:
    return translate(language, _FOUND.get(found, found))


_FOUND: Final = {
    str(text): text
    for text in (
        Text("there is no such file"),
        Text("it is not a file"),
        Text("it was not written in this session"),
        Text("it did not run in this session"),
        Text("it was not fetched in this session"),
        Text("read"),
    )
}
"""The findings of receipts, which are stored in English, by their English sentence."""


def bot_claimed(language: Language, answer: str) -> str:
    """Return the report of a session that a bot ended with the stop phrase, without proof of its claims."""
    note = gettext(language, "⚠️ Claimed, not proved: the bot said that it is done, without receipts.")
    return f"{answer}\n\n{note}".strip()


def bot_limit(language: Language, limit: str, answer: str) -> str:
    """Return the report of a session that a limit ended."""
    note = {
        "iterations": gettext(language, "⚠️ All iterations are used; the goal was not reached."),
        "budget": gettext(language, "⚠️ The budget is used up; the goal was not reached."),
    }[limit]
    return f"{answer}\n\n{note}".strip()


def bot_wakes(language: Language, name: str) -> str:
    """Say that a sleeping bot has been woken and continues now."""
    return gettext(language, "🤖 The bot {name} continues now.", name=name)


def bot_stops(language: Language, name: str) -> str:
    """Say that a bot is being stopped."""
    return gettext(language, "⏹ Stopping the bot {name}.", name=name)


def bots_refused(language: Language) -> str:
    """Say that the user is not allowed to run bots."""
    return gettext(language, "You may not run bots here. `[bots] allowed` in config.toml says who may.")


def bot_list(language: Language, rows: Sequence[tuple[str, str, str, str]]) -> str:
    """List bots in Markdown. Each row has a bot's name, description, state and last goal."""
    if not rows:
        return gettext(language, "There are no bots. Make one with: rumi bot create NAME")
    lines = []
    for name, about, state, goal in rows:
        parts = [f"**{name}**", shortly(about), bot_state(language, state), shortly(goal)]
        lines.append(f"- {' · '.join(filter(None, parts))}")
    return "\n".join(lines)


def bot_state(language: Language, state: str) -> str:
    """Return the name of a bot's state; an empty `state` means that the bot has never run."""
    return in_words(language, state) if state else gettext(language, "never ran")


def bot_resume(language: Language, name: str, id: int) -> str:
    """Say how to resume a bot's session."""
    return gettext(language, "Go on with: rumi bot run {name} --resume {id}", name=name, id=id)


def bot_clones(language: Language, folder: str) -> str:
    """Say that a bot's project is being copied."""
    return gettext(language, "copying {folder} for the bot", folder=shown(folder))


def bot_unchanged(language: Language, name: str) -> str:
    """Say that a bot has changed no files."""
    return gettext(language, "The bot {name} has changed nothing in its project.", name=name)
