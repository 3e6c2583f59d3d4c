"""Texts about spoken answers."""

from typing import Final, Literal, TypeAlias

from rumi.texts import Language, Text, gettext, translate

Spoken: TypeAlias = Literal["never", "to_voice", "always"]
"""Which answers are also spoken: none, those to voice messages, or all."""

_STATES: Final[dict[Spoken, Text]] = {
    "never": Text("🔇 I answer in writing only. `/voice on` also speaks my answers to voice messages."),
    "to_voice": Text(
        "🔊 I also speak my answers to voice messages; the text comes first. `/voice off` ends that, "
        "`/voice always` speaks every answer."
    ),
    "always": Text(
        "🔊 I also speak every answer; the text comes first. `/voice off` ends that, `/voice on` speaks only "
        "answers to voice messages."
    ),
}


def spoken_is(language: Language, spoken: Spoken) -> str:
    """Say which answers are also spoken in this chat, and how to change that."""
    return translate(language, _STATES[spoken])


def cannot_speak(language: Language) -> str:
    """Say that answers cannot be spoken in this chat."""
    return gettext(
        language,
        "I cannot speak in this chat: that needs Telegram, and [voice] speech_server in the configuration.",
    )


def voice_usage(language: Language) -> str:
    """Say how to use `/voice`."""
    return gettext(
        language,
        "Send `/voice on` (answers to voice messages are also spoken), `/voice always` or `/voice off`.",
    )


def not_spoken(language: Language, why: str) -> str:
    """Say that an answer was not spoken; `why` is a sentence."""
    return gettext(language, "🔇 The answer was not spoken. {why}", why=why)
