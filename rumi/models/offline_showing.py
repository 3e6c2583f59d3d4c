"""Shows the results of tools to people: without the marks, headings and notes that are meant for models."""

import re
from typing import Final

from rumi.models.fitting import without_notes
from rumi.models.offline_research import fenced
from rumi.platform.untrusted_text import CLOSING, OPENING, WARNING
from rumi.texts import Language, Text, gettext, translate

_VERBATIM: Final = frozenset(
    {"bash", "read_file", "edit_file", "recall", "web_fetch", "web_search", "calendar_read"}
)
"""Tools whose results are untrusted; the answer shows their results verbatim, not as Markdown."""

_MARKS: Final = re.compile(
    rf'^{re.escape(WARNING)}\n|^<{OPENING} source="[^"\n]*">\n|\n{re.escape(CLOSING)}$', re.MULTILINE
)
_PAGE_FACTS: Final = re.compile(r"\Astatus (?P<status>\d{3}) · [^\n]*\n")
_TITLE: Final = re.compile(r"\Atitle: (?P<title>[^\n]*)\n+")
_LEFT_OUT: Final = re.compile(r"^\[… [^\n]* left out[^\n]*…\]$", re.MULTILINE)
_MODEL_NOTES: Final = re.compile(r"\n\[(?:The whole output, |What `&` started )[^\n]*\]")
_ENDED: Final = re.compile(
    r"\A(?P<how>exit code (?P<code>\d+|unknown)|timed out and was killed|killed: [^\n(]*|the sandbox ended)"
    r"[^\n]*? \(\d+ ms\)\n(?P<rest>.*)\Z",
    re.DOTALL,
)
_STREAMS: Final = re.compile(
    r"\A(?:error )?output(?: \(truncated: [^\n]*\))?:\n(?P<first>.*?)"
    r"(?:(?:\A|\n)error output(?: \(truncated: [^\n]*\))?:\n(?P<errors>(?:(?!\nerror output:\n).)*))?\Z",
    re.DOTALL,
)
_MISSING: Final = re.compile(
    r"\A(?:[^\s:]+: )+(?:cannot \w+ (?:\w+ )?)?['‘]?(?P<name>[^:'’\n]+)['’]?: No such file or directory\s*\Z"
)


def shown_result(tool: str, command: str, content: str, language: Language) -> str:
    """Return a tool's result as Markdown for a person. `command` is the shell command of a `bash` call."""
    said = translate(language, content) if isinstance(content, Text) else without_notes(content)
    cut = bool(_LEFT_OUT.search(said) or _MODEL_NOTES.search(said) or "(truncated: " in said)
    said = _LEFT_OUT.sub("[…]", _MODEL_NOTES.sub("", said))
    if tool == "bash" and (ended := _ENDED.match(said)) is not None:
        shown = _command(command, ended, language)
    elif isinstance(content, Text) and not _MARKS.search(said):
        return said
    else:
        shown = _text(tool, said)
    if cut:
        shown += "\n\n" + gettext(language, "This is only a part: the middle is left out.")
    return shown


def _text(tool: str, said: str) -> str:
    said = _PAGE_FACTS.sub(lambda facts: "" if facts["status"] == "200" else facts[0], said)
    said = _MARKS.sub("", said).strip()
    heading = ""
    if tool == "web_fetch" and (title := _TITLE.match(said)) is not None:
        heading, said = f"{title['title']}\n\n", said[title.end() :]
    return fenced(heading + said) if tool in _VERBATIM or "__" in tool else heading + said


def _command(command: str, ended: re.Match[str], language: Language) -> str:
    code, rest = ended["code"], ended["rest"].strip("\n")
    printed = "" if rest == "(no output)" else rest
    if (streams := _STREAMS.match(printed)) is not None:
        printed = "\n".join(filter(None, (streams["first"].rstrip("\n"), streams["errors"])))
    if code == "0":
        if printed:
            return fenced(printed)
        if command.split(None, 1)[:1] == ["ls"]:
            return gettext(language, "There are no files yet.")
        return gettext(language, "Done. The command printed nothing.")
    if (missing := _MISSING.match(printed)) is not None:
        return gettext(language, "There is no file or folder “{name}”.", name=missing["name"])
    if ended["how"].startswith("timed out"):
        why = gettext(language, "The command took too long and was stopped.")
    elif ended["how"].startswith("killed"):
        why = gettext(language, "The command was stopped because the disk space is used up.")
    elif code is None or code == "unknown":
        why = gettext(language, "The sandbox ended during the command. The next command gets a new one.")
    elif printed:
        why = gettext(language, "That did not work:")
    else:
        why = gettext(language, "The command ended with code {code} and printed nothing.", code=code)
    return f"{why}\n\n{fenced(printed)}" if printed else why
