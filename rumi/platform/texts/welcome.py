"""The first screen of the terminal chat: what to type, and how to get a real model."""

import textwrap
from collections.abc import Sequence
from typing import Final

from rumi.texts import Language, gettext

KEYS_URL: Final = "https://console.groq.com/keys"

MOST_COLUMNS: Final = 100
"""Maximum width of the screen's sentences; longer lines are hard to read."""


def welcome(language: Language, columns: int, servers: Sequence[str], *, demo: bool, first: bool) -> str:
    """Return the text that a person reads before the chat; empty if there is nothing to say.

    `servers` are the local model servers that are running. After the `first` start, the text is one sentence
    about the demo, or nothing.
    """
    if not first:
        return _wrapped(_demo_again(language, servers), columns) if demo else ""
    lines = [_wrapped(_greeting(language, demo=demo), columns)]
    examples = demo_examples(language) if demo else _examples(language)
    width = max(len(about) for about, _ in examples)
    lines += [f"  {about:{width}}  {example}" for about, example in examples]
    if demo:
        lines.append(_wrapped(_real_model(language, servers), columns))
    return "\n".join(lines)


def demo_examples(language: Language) -> tuple[tuple[str, str], ...]:
    """Return requests that the demo understands, each with its subject."""
    return (
        (gettext(language, "files"), gettext(language, "write notes/todo.md: buy milk")),
        (gettext(language, "reminders"), gettext(language, "remind me in 20 minutes: tea")),
        (gettext(language, "memory"), gettext(language, "remember that I live in Lisbon")),
        (gettext(language, "sums"), gettext(language, "what is 15% of 80")),
    )


def _examples(language: Language) -> tuple[tuple[str, str], ...]:
    return (
        (gettext(language, "files"), gettext(language, "write a packing list for a week at sea to list.md")),
        (gettext(language, "the web"), gettext(language, "what is new on https://blog.python.org")),
        (gettext(language, "reminders"), gettext(language, "remind me tomorrow at 9 to call Ana")),
        (gettext(language, "research"), gettext(language, "/research which e-readers open EPUB files?")),
    )


def _greeting(language: Language, *, demo: bool) -> str:
    if demo:
        return gettext(language, "Welcome to Rumi. No language model is set up yet, so a demo answers. Try:")
    return gettext(language, "Welcome to Rumi. Say what you need, for example:")


def _real_model(language: Language, servers: Sequence[str]) -> str:
    said = gettext(
        language,
        "For a real model, paste an API key here (Groq's is free: {url}), or leave with Ctrl-D and run "
        "`rumi setup`.",
        url=KEYS_URL,
    )
    return said + _found(language, servers)


def _demo_again(language: Language, servers: Sequence[str]) -> str:
    said = gettext(
        language,
        "This is the demo (“help” lists what it understands). For a real model, paste an API key here or run "
        "`rumi setup`.",
    )
    return said + _found(language, servers)


def _found(language: Language, servers: Sequence[str]) -> str:
    if not servers:
        return ""
    found = ", ".join(servers)
    return " " + gettext(
        language, "A model server runs on this machine: {found}; `rumi setup` takes it.", found=found
    )


def _wrapped(text: str, columns: int) -> str:
    width = max(20, min(columns - 1, MOST_COLUMNS))
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
