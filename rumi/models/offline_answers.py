"""What the demo model says itself: greetings, help, the time, and what it cannot do."""

import re
import time
from typing import Final, Literal

from rumi.platform.texts.formats import full_date
from rumi.platform.zones import local_at
from rumi.texts import Language, gettext

QUOTED_CHARS: Final = 60
_ZONE: Final = re.compile(r"^Today is \w+, [-\d]+, \d\d:\d\d in (?P<zone>\S+)\.$", re.MULTILINE)
"""The line of the prompt that names the user's time zone. The time in it may be some minutes old."""


def unclear(language: Language, step: str, channel: str) -> str:
    """Say in two lines that the demo cannot do this, and how to get a real model."""
    quoted = " ".join(step.split())
    quoted = quoted if len(quoted) <= QUOTED_CHARS else f"{quoted[:QUOTED_CHARS]}…"
    first = gettext(
        language,
        "I am only a demo, not a language model, so I did nothing with “{text}”. “help” lists what I can do.",
        text=quoted,
    )
    return f"{first}\n\n{way_on(language, channel)}"


def way_on(language: Language, channel: str) -> str:
    """Say in one line how to get a real model."""
    if channel == "terminal":
        return gettext(
            language, "For a real model, paste an API key here (Groq's is free) or run `rumi setup`."
        )
    return gettext(
        language, "For a real model, run `rumi setup` where Rumi is installed (a Groq key is free)."
    )


def small_talk(language: Language, topic: Literal["hello", "thanks", "help"], channel: str) -> str:
    """Answer a greeting, thanks, or the question for what the demo can do."""
    if topic == "thanks":
        return gettext(language, "You're welcome!")
    if topic == "hello":
        hello = gettext(
            language,
            "Hello! I am a demo: I understand simple requests, such as “write notes.txt: hello”, “list "
            "files”, “what is 15% of 80” and “remind me in 20 minutes: tea”. “help” lists more.",
        )
        return f"{hello}\n\n{way_on(language, channel)}"
    return f"{_help(language)}\n\n{way_on(language, channel)}"


def _help(language: Language) -> str:
    return gettext(
        language,
        "I am a demo, not a language model. I understand:\n\n"
        "- commands: `date`, `ls`, `wc -l FILE`; `run CMD` or `$ CMD` for any other\n"
        "- files: `list files`, `read FILE`, `write FILE: TEXT`, `edit FILE: OLD => NEW`, `delete FILE`, "
        "`look at FILE`, `show FILE`\n"
        "- the web: `fetch URL`, `search QUERY`, `download URL as FILE`, `research QUESTION`, "
        "`research repo URL: QUESTION`\n"
        "- memory: `remember that I live in Rome`, `remember KEY = VALUE`, `forget KEY`, "
        "`what do you know about me`, `what did we say about QUERY`\n"
        "- time: `what time is it`, `remind me tomorrow at 9: TEXT`\n"
        "- sums: `12*7+3`, `what is 15% of 80`\n"
        "- more: `use skill NAME: INPUT`, `use tool NAME {JSON}`; several steps are joined by `; then `",
        JSON="{JSON}",
    )


def time_now(language: Language, prompt: str) -> str:
    """Return the date and the time in the user's zone, which the prompt names; otherwise in UTC."""
    zones = _ZONE.findall(prompt)
    name = zones[-1] if zones else ""
    now = local_at(time.time(), name or "UTC")
    return gettext(
        language,
        "It is {time} on {date} ({zone}).",
        time=f"{now:%H:%M}",
        date=full_date(language, now.date()),
        zone=name or gettext(language, "UTC; `/timezone` sets yours"),
    )
