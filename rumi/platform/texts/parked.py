"""Texts that ask people about parked tool calls, which wait for approval, and texts about the answers."""

from collections.abc import Iterable, Sequence

from rumi.texts import Language, gettext


def parked_question(
    language: Language, head: str, parked: Sequence[tuple[int, str]], yes: str, no: str, one_by_one: str = ""
) -> str:
    """Return a question that lists parked calls by number; `yes` and `no` are the commands that answer it.

    `one_by_one` is an example of an answer with a decision for each call; it is empty if this is not
    possible.
    """
    example = gettext(language, "; one by one: {one_by_one}", one_by_one=one_by_one) if one_by_one else ""
    answer = how_to_answer(language, [number for number, _ in parked], yes, no)
    return "\n\n".join([head, *(numbered(number, text) for number, text in parked), answer + example])


def how_to_answer(language: Language, numbers: Sequence[int], yes: str, no: str) -> str:
    """Say how to answer questions with these numbers; `yes` and `no` are the commands."""
    which = in_numbers(numbers)
    return gettext(language, "Answer with {yes} {numbers}, or {no} {numbers}", yes=yes, numbers=which, no=no)


def numbered(number: int, question: str) -> str:
    """Return a numbered question in Markdown, with the question's values in a code block."""
    # In code nothing is formatted: the text of a link could hide its URL. Each line begins with the name of
    # its value, so no value can end the block.
    first, _, values = question.partition("\n")
    return f"{number}. {first}\n```\n{values}\n```" if values else f"{number}. {first}"


def parked_buttons(parked: Sequence[tuple[int, str]], yes: str, no: str) -> tuple[tuple[str, str], ...]:
    """Return the buttons for parked calls, each as its label and the command that a press sends."""
    return tuple(
        button
        for number, _ in parked
        for button in ((f"✅ {number}", f"{yes} {number}"), (f"❌ {number}", f"{no} {number}"))
    )


def in_numbers(numbers: Iterable[int]) -> str:
    """Return numbers separated by spaces, as commands accept them."""
    return " ".join(map(str, numbers))


def chat_needs_yes(language: Language, parked: Sequence[tuple[int, str]]) -> str:
    """Return the question about calls that a chat's unattended turns have parked, or an empty text."""
    if not parked:
        return ""
    head = gettext(language, "🔒 This needs your yes, and I have not done it yet:")
    first, *rest = (number for number, _ in parked)
    one_by_one = f"/yes {first} no {in_numbers(rest)}" if rest else ""
    return parked_question(language, head, parked, "/yes", "/no", one_by_one)


def calls_refused(language: Language, numbers: Sequence[int]) -> str:
    """Say which parked calls were rejected; empty if there are none."""
    if not numbers:
        return ""
    which = in_numbers(numbers)
    return gettext(language, "❌ No: {which}. I will not do it.", which=which)


def calls_not_open(language: Language, unknown: Sequence[int], answered: Sequence[int]) -> str:
    """Say which call numbers in an answer have no effect, and why; empty if all numbers have an effect."""
    parts = []
    if unknown:
        which = in_numbers(unknown)
        parts.append(gettext(language, "This question is no longer open: {which}.", which=which))
    if answered:
        which = in_numbers(answered)
        parts.append(gettext(language, "This question has its answer already: {which}.", which=which))
    return "\n".join(parts)


def answer_usage(language: Language, waiting: Sequence[int]) -> str:
    """Say how to answer questions about parked calls, and which calls wait for an answer."""
    if not waiting:
        return gettext(language, "Nothing waits for your yes.")
    which = in_numbers(waiting)
    return gettext(
        language,
        "Say which one: /yes {waiting} or /no {waiting}. Waiting: {which}.",
        waiting=waiting[0],
        which=which,
    )
