"""Confirmation questions before an action that untrusted content may have caused, and the answers.

People must see the real arguments of a call, so a question has a line for each value and each host. URLs,
recipients, paths and other values that name a destination are never shortened. Long content is shortened in
the middle; then a second text has all values in full, and each channel shows that text as well.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias
from unicodedata import normalize

from rumi.texts import Language, Text, gettext, languages, translate

ActionKind: TypeAlias = Literal[
    "fetch",
    "send_file",
    "remember",
    "forget",
    "research",
    "schedule",
    "unschedule",
    "start_bot",
    "write_skill",
    "propose_plan",
    "mcp",
    "accept_tool",
    "make_image",
    "browse",
    "fill_in",
    "press",
    "submit",
    "add_event",
    "change_event",
    "delete_event",
    "mail_send",
    "mail_draft",
]


Verdict: TypeAlias = Literal["yes", "no", "expired", "nobody"]
"""The result of a question; only `yes` approves. `nobody` means that no person was there to answer."""


_ACTIONS: dict[ActionKind, Text] = {
    "fetch": Text("open this address, which neither you nor a page gave"),
    "send_file": Text("send you this file"),
    "remember": Text("save this to memory"),
    "forget": Text("forget this"),
    "research": Text("research this outside"),
    "schedule": Text("schedule this for later"),
    "unschedule": Text("delete this schedule"),
    "start_bot": Text("start this bot, which works on its own"),
    "propose_plan": Text("work by this plan, without asking again for what it says"),
    "write_skill": Text("keep this way of working"),
    "mcp": Text("call this tool of another program"),
    "make_image": Text("have this image made by a server"),
    "mail_send": Text("send this mail"),
    "mail_draft": Text("store this draft of a mail"),
    "accept_tool": Text("use this tool of another program, whose description has changed"),
    "browse": Text("open this address in the browser, and others of the same server in this turn"),
    "fill_in": Text("type this into a page"),
    "press": Text("press this on a page"),
    "submit": Text("submit this on a page"),
    "add_event": Text("put this into the calendar"),
    "change_event": Text("change this event in the calendar"),
    "delete_event": Text("delete this event from the calendar"),
}


def page_action(action: ActionKind, control: str, host: str, count: int) -> Text:
    """Return what a deed on a page is, with the label of the control that a person sees, and its host.

    `count` is the number of fields that are sent or filled in.
    """
    label = visible(control)
    if action == "submit" and not count:
        return Text("submit “{control}” on {host}", control=label, host=host)
    if action == "submit":
        return Text(
            "submit “{control}” on {host}, {count} field",
            many="submit “{control}” on {host}, {count} fields",
            count=count,
            control=label,
            host=host,
        )
    if action == "press":
        return Text("press “{control}” on {host}", control=label, host=host)
    return Text(
        "fill in {count} field on {host}", many="fill in {count} fields on {host}", count=count, host=host
    )


_DETAILS = {
    "url": Text("address"),
    "host": Text("server"),
    "path": Text("file"),
    "key": Text("key"),
    "value": Text("value"),
    "question": Text("question"),
    "text": Text("text"),
    "prompt": Text("prompt"),
    "at": Text("time"),
    "in_minutes": Text("in minutes"),
    "cron": Text("cron"),
    "id": Text("number"),
    "hosts": Text("hosts, and how often at most"),
    "steps": Text("steps"),
    "urls": Text("addresses"),
    "ref": Text("branch, tag or commit"),
    "also": Text("the old value stays too"),
    "research": Text("it is a research"),
    "background": Text("in the background"),
    "recipient": Text("the report goes to"),
    "model_calls": Text("model calls, at most"),
    "money": Text("money, at most"),
    "tool": Text("tool"),
    "arguments": Text("arguments"),
    "changes": Text("changes"),
    "hours": Text("holds, in hours"),
    "control": Text("button or link"),
    "page": Text("page"),
    "sends_to": Text("sends to"),
    "fields": Text("fields"),
    "accept": Text("and says yes to"),
    "calendar": Text("calendar"),
    "event": Text("event"),
    "series": Text("of its series"),
    "title": Text("title"),
    "start": Text("start"),
    "end": Text("end"),
    "place": Text("place"),
    "notes": Text("notes"),
    "repeat": Text("repeats by the rule"),
    "alarm_minutes": Text("alarm, minutes before"),
    "to": Text("to"),
    "cc": Text("copy to"),
    "bcc": Text("hidden copy to"),
    "sender": Text("from the mailbox"),
    "reply_to": Text("answers the mail"),
    "subject": Text("subject"),
    "mail_text": Text("text"),
    "attachments": Text("attachments, and their sizes"),
}


WHOLE_CHARS: Final = 800
"""Maximum length of content that is shown completely; of longer content, only head and tail are shown."""

HEAD_CHARS: Final = 300

MOST_ANSWER_CHARS: Final = 12
"""Maximum length of a word that is a yes or a no. Longer messages are not looked up in the catalogues."""

MOST_QUESTION_CHARS: Final = 50_000
"""Maximum length of a question. A longer one is not asked, because no person could check it."""

_CONTENT: Final = frozenset({"value", "text", "prompt", "question", "notes", "mail_text"})
"""Names of built-in tools' arguments that are content, so that their values may be shortened."""

_LIKE_LATIN: Final = frozenset("аеорсухіјѕԁһԛԝАВЕЗКМНОРСТУХІЈЅαοονρυΑΒΕΖΗΙΚΜΝΟΡΤΥΧ")
"""Letters of other scripts that look like Latin ones. In a word with Latin letters, they are escaped."""

_WORD: Final = re.compile(r"[^\W\d_]+")

_IN_LINES: Final = frozenset({"mail_text", "notes"})
"""Names of content that is shown with its lines, each behind a bar, which the content cannot forge."""

_INVISIBLE: Final = frozenset("\u034f\u0333\u033f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a tool call: its path in the arguments, such as `to[2]`, and its text for people.

    A long value is shortened if `content` is true; all other values are shown completely.
    """

    path: str
    text: str
    content: bool = False


Detail: TypeAlias = str | Sequence[Value]
"""The text of one argument, or several values, each shown on a separate line."""


@dataclass(frozen=True, slots=True)
class QuestionText:
    """A question for people. `whole` is the unshortened question; it is empty if `text` is not shortened."""

    text: str
    whole: str = ""


def question(
    language: Language,
    action: ActionKind,
    details: Mapping[str, Detail],
    *,
    tainted: bool = True,
    what: Text | None = None,
) -> QuestionText:
    """Return the question about a call, with one line for each of its real arguments.

    `what` says what the action is in this case, such as `page_action`.
    """
    first = gettext(language, "May I {action}?", action=what or _ACTIONS[action])
    if tainted:
        first = gettext(language, "This chat contains content from files or the web. {first}", first=first)
    text, whole = ("\n".join([first, *_lines(language, details, whole=in_full)]) for in_full in (False, True))
    return QuestionText(text, "" if text == whole else whole)


def _lines(language: Language, details: Mapping[str, Detail], *, whole: bool) -> Iterator[str]:
    for name, value in details.items():
        label = translate(language, _DETAILS.get(name, name))
        if isinstance(value, Text):
            value = translate(language, value)  # of this program, such as a choice
        if isinstance(value, str) and name in _IN_LINES:
            yield f"  {label}:"
            head, hidden, tail = _shortened(value, whole=whole)
            yield from (f"    │ {visible(line)}" for line in head)
            if hidden:
                yield f"    {_between(language, hidden, len(value))}"
            yield from (f"    │ {visible(line)}" for line in tail)
            continue
        if isinstance(value, str):
            yield f"  {label}: {_shown(language, value, whole=whole or name not in _CONTENT)}"
            continue
        yield f"  {label}:" if value else f"  {label}: -"
        for value_shown in value:
            shown = _shown(language, value_shown.text, whole=whole or not value_shown.content)
            yield f"    {visible(value_shown.path)}: {shown}"


def _shown(language: Language, value: str, *, whole: bool) -> str:
    """Return a value as one line. Long content is shortened to its head and tail, unless `whole` is true."""
    if whole or len(value) <= WHOLE_CHARS:
        return visible(value)
    between = _between(language, len(value) - 2 * HEAD_CHARS, len(value))
    return f"{visible(value[:HEAD_CHARS])} {between} {visible(value[-HEAD_CHARS:])}"


def _between(language: Language, hidden: int, count: int) -> str:
    """Return the note between head and tail of a shortened text."""
    from rumi.platform.texts.formats import number  # imported here: few questions need it

    return gettext(
        language,
        "… ({hidden} of {count} characters) …",
        hidden=number(language, hidden),
        count=number(language, count),
    )


def _shortened(text: str, *, whole: bool) -> tuple[list[str], int, list[str]]:
    """Return the lines of a text's head, the number of hidden characters, and the lines of its tail."""
    if whole or len(text) <= WHOLE_CHARS:
        return text.split("\n"), 0, []
    head, tail = text[:HEAD_CHARS], text[-HEAD_CHARS:]
    return head.split("\n"), len(text) - 2 * HEAD_CHARS, tail.split("\n")


def visible(text: str) -> str:
    """Escape characters that break lines, move the cursor, hide text or change the reading direction.

    Letters that look like Latin ones are escaped in words that have Latin letters too.
    """
    text = _WORD.sub(_unmixed, text)
    return "".join(
        c if _is_visible(c) else f"\\u{ord(c):04x}" if c <= "\uffff" else f"\\U{ord(c):08x}" for c in text
    )


def _unmixed(word: re.Match[str]) -> str:
    if word[0].isascii() or not any(c.isascii() for c in word[0]):
        return word[0]
    return "".join(f"\\u{ord(c):04x}" if c in _LIKE_LATIN else c for c in word[0])


def _is_visible(character: str) -> bool:
    if character.isascii():
        return character.isprintable()
    variant = "\ufe00" <= character <= "\ufe0e" or "\U000e0100" <= character <= "\U000e01ef"
    return character.isprintable() and character not in _INVISIBLE and not variant


_YES: Final = Text("yes y ok okay")

_NO: Final = Text("no n")
"""The words that are a yes or a no. A translation has the words of its language."""


def yes_or_no(text: str) -> bool | None:
    """Parse an answer in any language: return True for a yes, False for a no, and None for anything else."""
    # Some systems send í as an i and a combining accent.
    word = normalize("NFC", text).strip().strip(".!¡ ").casefold()
    if len(word) > MOST_ANSWER_CHARS:
        return None
    for language in languages():
        for words, answer in ((_YES, True), (_NO, False)):
            if word in translate(language, words).split():
                return answer
    return None


def verdict(language: Language, how: Verdict) -> str:
    """Describe the result of a question in a few words."""
    return {
        "yes": gettext(language, "✅ Yes."),
        "no": gettext(language, "❌ No."),
        "expired": gettext(language, "⌛ No answer: no."),
        "nobody": gettext(language, "❌ Nobody could answer: no."),
    }[how]
