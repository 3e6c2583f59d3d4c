"""What was found in the home of another assistant, independent of the program that wrote it."""

import hashlib
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from rumi.models.model import Message
from rumi.platform.redact import Redactor
from rumi.texts import Text

Kind: TypeAlias = Literal["openclaw", "nanobot", "hermes", "openbot", "chatgpt"]
Part: TypeAlias = Literal["sessions", "memory", "skills", "schedules", "people", "config"]

PARTS: Final[tuple[Part, ...]] = ("sessions", "memory", "skills", "schedules", "people", "config")

TITLES: Final[dict[str, str]] = {
    "openclaw": "OpenClaw",
    "nanobot": "nanobot",
    "hermes": "Hermes",
    "openbot": "openbot",
    "chatgpt": "ChatGPT",
}


_REDACTOR: Final = Redactor(())


def hidden(text: str) -> str:
    """Return a text in which keys and passwords are replaced."""
    return _REDACTOR.text(text)


@dataclass(frozen=True, slots=True)
class MovedTurn:
    """What a person said, and all that the assistant did about it until it was answered.

    `key` tells this turn from all others of its source, in each import. `entries` begins with the person's
    message; each has the time when it was written, in seconds since 1970. `reply` is the last answer; empty
    if none was stored.
    """

    key: str
    text: str
    at: float
    entries: tuple[tuple[Message, float], ...]
    reply: str = ""


@dataclass(frozen=True, slots=True)
class MovedSession:
    """A conversation, which becomes a chat of the home's owner with the id `chat`."""

    id: str
    chat: str
    title: str
    turns: tuple[MovedTurn, ...]

    @property
    def at(self) -> float:
        """The time of the last message, in seconds since 1970."""
        return self.turns[-1].entries[-1][1]


@dataclass(frozen=True, slots=True)
class MovedFact:
    """A fact, and the file or the place that it comes from."""

    key: str
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class MovedSkill:
    """The files of a skill with their paths in its folder. `name` is free of characters that Rumi refuses."""

    name: str
    files: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class MovedSchedule:
    """A schedule. It recurs at `cron`, or fires once at `instant`, in seconds since 1970.

    `zone` is that of `cron`; empty for the owner's. `action` is `turn` if a model works on the text, `text`
    if the text is sent as it is.
    """

    id: str
    name: str
    text: str
    action: Literal["turn", "text"] = "turn"
    cron: str = ""
    zone: str = ""
    instant: float = 0.0


@dataclass(frozen=True, slots=True)
class MovedPerson:
    """A person whom the other program let in, by the numeric id of the person at Telegram."""

    name: str
    telegram: int


@dataclass(frozen=True, slots=True)
class MovedText:
    """A file with instructions for the other assistant, such as SOUL.md. It is kept, but not used."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class NotImported:
    """Something that is not taken over, and why. `count` is how many there are of it."""

    part: Part
    what: str
    why: Text
    count: int = 1


@dataclass(slots=True)
class ForeignHome:
    """All that was found in a foreign home. `zone` is its time zone, and `settings` maps keys to values.

    A reader adds to the lists while it reads; after that, nothing changes them.
    """

    kind: Kind
    home: str
    sessions: list[MovedSession] = field(default_factory=list)
    facts: list[MovedFact] = field(default_factory=list)
    skills: list[MovedSkill] = field(default_factory=list)
    schedules: list[MovedSchedule] = field(default_factory=list)
    people: list[MovedPerson] = field(default_factory=list)
    texts: list[MovedText] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    zone: str = ""
    left_out: list[NotImported] = field(default_factory=list)
    _places: dict[tuple[Part, str, str], int] = field(default_factory=dict, repr=False)

    def leave(self, part: Part, what: str, why: Text, count: int = 1) -> None:
        """Note something that is not taken over. The same things are counted together.

        A note is shown and stored, so keys are hidden: names and addresses of the program may have some.
        """
        place = self._places.get((part, what, why))
        if place is not None:
            one = self.left_out[place]
            self.left_out[place] = NotImported(part, one.what, one.why, one.count + count)
        elif len(self.left_out) < MOST_LEFT_OUT:
            self._places[part, what, why] = len(self.left_out)
            self.left_out.append(NotImported(part, hidden(what), _hidden(why), count))


def _hidden(why: Text) -> Text:
    fields: dict[str, Any] = {
        name: hidden(value) if isinstance(value, str) and not isinstance(value, Text) else value
        for name, value in why.fields.items()
    }
    return Text(why.key, many=why.many, **fields)


MOST_LEFT_OUT: Final = 2_000
"""Maximum number of different things that a report names as not taken over."""


def number_of(key: str) -> int:
    """Return a number below 2^63 that stands for a key of a foreign home, the same one in each import."""
    return int.from_bytes(hashlib.sha256(key.encode("utf-8", "replace")).digest()[:8]) >> 1
