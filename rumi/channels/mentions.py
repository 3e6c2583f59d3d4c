"""Files that a typed text names: `@name`, and paths that were dropped onto the terminal.

Nothing here opens a file. Names are looked up in a `FilePlace`: below the terminal's working folder with the
user's rights, or in the files of a chat.
"""

import heapq
import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote_to_bytes, urlsplit

from rumi.platform.printable import one_line
from rumi.store.journal.records import Attachment
from rumi.texts import Language, gettext

MOST_DROPPED: Final = 50
"""Maximum number of paths in one drop."""

MOST_LOOKED_AT: Final = 5_000
"""Maximum number of names in a folder that are compared with a misspelt one."""

MOST_NAME_CHARS: Final = 4096
"""Maximum length of a path, as on Linux."""

MOST_LISTED: Final = 20_000
"""Maximum number of entries of one folder that are looked at for a completion."""

MOST_OFFERED: Final = 200
"""Maximum number of names that are offered at once."""

MOST_NAMES: Final = 500
"""Maximum number of names of a folder that go with a message."""

_BEGUN: Final = re.compile(r"""(?<![^\s(\[{])@(?:"([^"\n]*)|'([^'\n]*)|((?:\\.|[^\s\\])*))\Z""")
_NAMED: Final = re.compile(r"""(?<![^\s(\[{])@(?:"([^"\n]+)"|'([^'\n]+)'|((?:\\.|[^\s\\])+))""")
_AFTER: Final = ".,;:!?)]}'\"…"
"""Punctuation that may follow a file name in a sentence."""
_FENCED: Final = re.compile(r"^(```+|~~~+).*?^\1", re.DOTALL | re.MULTILINE)
_ESCAPED: Final = re.compile(r"\\(.)")
_PLAIN: Final = re.compile(r"[^\s\"'\\(){}\[\],;:!?…]+")
_EXPLICIT: Final = ("/", "~/", "./", "../")
_ALIKE: Final = 0.7
"""How similar a name must be to count as what was meant, from 0 to 1."""


class FilePlace(Protocol):
    """Where the names of files are looked up. Methods block, for a short time."""

    def kind(self, name: str) -> int:
        """Return the kind of the entry with a name, as `stat` reports it; 0 if there is none."""
        ...

    def entries(self, folder: str) -> Iterator[tuple[str, bool]]:
        """Yield the names in a folder, and whether each is a file. A folder that cannot be read has none."""
        ...

    def short(self, path: str) -> str:
        """Return the path in the form in which a person writes it."""
        ...


class WorkingFolder:
    """The working folder and the home of the process, with the rights of its user."""

    def kind(self, name: str) -> int:
        """Return the kind of an entry; `~` is replaced."""
        if len(name) > MOST_NAME_CHARS:
            return 0
        try:
            return stat.S_IFMT(os.stat(expanded(name)).st_mode)
        except (OSError, ValueError, RuntimeError):
            return 0

    def entries(self, folder: str) -> Iterator[tuple[str, bool]]:
        """Yield the names in a folder."""
        try:
            with os.scandir(expanded(folder or ".")) as entries:
                for entry in entries:
                    try:
                        yield entry.name, not entry.is_dir()
                    except OSError:  # a link that leads nowhere
                        continue
        except (OSError, ValueError, RuntimeError):
            return

    def short(self, path: str) -> str:
        """Return a path as seen from the working folder, or from the home."""
        here, home = os.getcwd(), os.path.expanduser("~")
        if path.startswith(here.rstrip("/") + "/"):
            return path[len(here.rstrip("/")) + 1 :]
        if home != "/" and path.startswith(home + "/"):
            return "~" + path[len(home) :]
        return path


HERE: Final = WorkingFolder()


@dataclass(frozen=True, slots=True)
class Mentions:
    """The names in a text: those of files and folders that exist, and those that look like missing files.

    Each missing one comes with the name of a similar file; it is empty if the text is certainly a path.
    """

    names: tuple[str, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()


_DROP_BEGINS: Final = ("/", "'", '"', "file:")
"""How a text begins that a terminal types when files are dropped on it."""


def mentioned(text: str, place: FilePlace = HERE) -> Mentions:
    """Return the names that a text mentions as `@name`, `@"a name"` or `@a\\ name`.

    Addresses, mentions of people and decorators in pasted code are text: an `@` counts only at the beginning
    of a word and outside of fenced code. At the beginning of one of several lines it counts only before a
    path with a dot or a slash that exists.
    """
    plain = _FENCED.sub(lambda code: " " * len(code[0]), text)
    names, missing = dict[str, None](), dict[str, str]()
    for found in _NAMED.finditer(plain):
        quoted = found[1] or found[2] or ""
        word = quoted or found[3]
        if not any(character.isalnum() or character in "~/" for character in word):
            continue
        first = not plain[plain.rfind("\n", 0, found.start()) + 1 : found.start()].strip()
        decorates = first and "\n" in plain.strip() and not quoted
        if decorates and not _is_path(word):
            continue
        if (name := _existing(word, place, quoted=bool(quoted))) is not None:
            names[name] = None
        elif not decorates and (quoted or _is_path(word)):
            meant = quoted or _ESCAPED.sub(r"\1", word.rstrip(_AFTER))
            alike = similar(meant, place)
            if alike or quoted or meant.startswith(_EXPLICIT):
                missing[meant] = alike
    return Mentions(tuple(names), tuple(missing.items()))


def names_nothing(text: str) -> bool:
    """Return True if a text names no file, whatever files there are: then nothing has to be looked up."""
    return "@" not in text and not text.strip().startswith(_DROP_BEGINS)


def dropped(text: str) -> tuple[str, ...]:
    """Return the paths of a drop: a text of nothing but whole paths of existing files, and folders.

    Terminals type them quoted, with escaped blanks, or as `file://` URLs. Other texts have none.
    """
    words = text.strip()
    if not words or len(words) > MOST_DROPPED * MOST_NAME_CHARS or not words.startswith(_DROP_BEGINS):
        return ()
    found = [path for path in (_local(words),) if path and os.path.isabs(path) and HERE.kind(path)]
    if not found:  # not one path with plain blanks in its name
        try:
            found = [_local(word) for word in shlex.split(words)]
        except ValueError:  # an open quote
            return ()
    if len(found) > MOST_DROPPED or not all(os.path.isabs(path) and HERE.kind(path) for path in found):
        return ()
    return tuple(dict.fromkeys(found))


def as_mention(path: str, place: FilePlace = HERE) -> str:
    """Return the text that mentions a path, in the form in which a person writes it."""
    short = place.short(path)
    if _PLAIN.fullmatch(short) and not short.endswith(tuple(_AFTER)):
        return f"@{short}"
    quote = "'" if '"' in short else '"'
    return f"@{quote}{short}{quote}"


def similar(name: str, place: FilePlace = HERE) -> str:
    """Return the name of an existing file that is similar to a missing one; empty if there is none."""
    folder, _, last = name.rstrip("/").rpartition("/")
    folder += "/" if folder or name.startswith("/") else ""
    if folder and not place.kind(folder):
        known = similar(folder.rstrip("/"), place)
        if not known or not place.kind(known + "/" + last):
            return ""
        return f"{known}/{last}"
    names = {entry.casefold(): entry for entry, _ in islice(place.entries(folder), MOST_LOOKED_AT)}
    near = get_close_matches(last.casefold(), names, n=1, cutoff=_ALIKE)
    return folder + names[near[0]] if near else ""


@dataclass(frozen=True, slots=True)
class NameOffer:
    """A completion: `text` takes the place of `typed`, which ends at the cursor. `label` is what is shown."""

    typed: str
    text: str
    label: str


def offers(line: str, place: FilePlace = HERE) -> Iterator[NameOffer]:
    """Yield the paths that begin with what stands behind the `@` at the end of a line, folders first."""
    begun = _BEGUN.search(line)
    if begun is None:
        return
    typed = next((part for part in begun.groups() if part is not None), "")
    if begun[3]:
        typed = typed.replace("\\ ", " ")
    folder, _, start = typed.rpartition("/")
    folder = f"{folder}/" if "/" in typed else ""
    listed = islice(place.entries(folder), MOST_LISTED)
    found = ((is_file, name) for name, is_file in listed if _fits(name, start))
    for is_file, name in heapq.nsmallest(MOST_OFFERED, found):
        path = f"{folder}{name}" + ("" if is_file else "/")
        text = as_mention(path, place)
        if not is_file:  # more may follow
            text = text.removesuffix(text[1]) if text[1] in "\"'" else text
        yield NameOffer(begun[0], text, one_line(name) + ("" if is_file else "/"))


def missing_lines(found: Mentions, language: Language) -> list[str]:
    """Return a sentence for each name in a text that looks like a missing file."""
    return [
        gettext(language, "The file @{name} does not exist. Did you mean @{meant}?", name=name, meant=meant)
        if meant
        else gettext(language, "The file @{name} does not exist.", name=name)
        for name, meant in found.missing
    ]


def names_of(entries: Iterable[tuple[str, bool]], source: str) -> Attachment:
    """Return the names in a folder as an attachment; `source` says whose they are."""
    found = sorted(
        one_line(name.encode("utf-8", "replace").decode()) + ("" if is_file else "/")
        for name, is_file in islice(entries, MOST_NAMES + 1)  # one more, to know whether there are more
        if name != ".git"
    )
    text = "\n".join(found[:MOST_NAMES]) or "(empty)"
    return Attachment("words", source=source, text=text, cut=len(found) > MOST_NAMES)


def _fits(name: str, start: str) -> bool:
    if name == ".git" or (name.startswith(".") and not start.startswith(".")) or not name.isprintable():
        return False
    return name.startswith(start) or name.casefold().startswith(start.casefold())


def expanded(name: str) -> Path:
    """Return a name as a path, with `~` replaced.

    Raises:
        RuntimeError: The user does not exist.
    """
    return Path(name).expanduser()


def _is_path(word: str) -> bool:
    """Return True if a word may be meant as a path: it has a slash, or a dot within it."""
    word = word.rstrip(_AFTER)
    return "/" in word or "." in word[1:] or (word.startswith(".") and len(word) > 1)


def _existing(word: str, place: FilePlace, *, quoted: bool) -> str | None:
    """Return the form of a word that names a file or folder: a name may end in punctuation or have a `\\`."""
    forms = [word] if quoted else [word, _ESCAPED.sub(r"\1", word), _ESCAPED.sub(r"\1", word.rstrip(_AFTER))]
    return next((form for form in forms if form and place.kind(form)), None)


def _local(word: str) -> str:
    """Return the path in a word: of a `file://` URL of this machine, or the word."""
    if not word.startswith("file:"):
        return word
    try:
        url = urlsplit(word)
    except ValueError:
        return ""
    if url.netloc not in ("", "localhost", os.uname().nodename):
        return ""
    return os.fsdecode(unquote_to_bytes(url.path))
