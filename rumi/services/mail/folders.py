"""Names and kinds of folders: modified UTF-7 (RFC 3501) and special uses (RFC 6154)."""

import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Use: TypeAlias = Literal["inbox", "sent", "drafts", "all", "junk", "trash", "archive", ""]

_USES: Final[dict[str, Use]] = {
    "\\sent": "sent",
    "\\drafts": "drafts",
    "\\all": "all",
    "\\allmail": "all",
    "\\junk": "junk",
    "\\spam": "junk",
    "\\trash": "trash",
    "\\archive": "archive",
}
# Names that servers without special uses give these folders, in the order of their likelihood.
_USUAL: Final[dict[Use, tuple[str, ...]]] = {
    "sent": ("sent", "sent items", "sent messages", "sent mail", "enviados", "elementos enviados",
             "itens enviados", "gesendet", "gesendete objekte", "messages envoyés", "inviata"),
    "drafts": ("drafts", "draft", "borradores", "rascunhos", "entwürfe", "brouillons", "bozze"),
    "junk": ("junk", "spam", "junk e-mail", "bulk mail"),
    "trash": ("trash", "deleted items", "deleted messages", "papelera", "lixeira", "papierkorb"),
    "archive": ("archive", "archives"),
}  # fmt: skip
_ENCODED: Final = re.compile(r"&([A-Za-z0-9+,]*)-")
_TO_ENCODE: Final = re.compile(r"[^\x20-\x7e]+|&")


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of a mailbox. `name` is for people, `raw` is the name at the server in modified UTF-7.

    `selectable` is False for a folder that only contains other folders.
    """

    name: str
    raw: str
    use: Use = ""
    selectable: bool = True


def decode_name(raw: str) -> str:
    """Return the name of a folder; a part that is not valid modified UTF-7 stays as it is."""

    def decoded(found: re.Match[str]) -> str:
        if not found[1]:
            return "&"
        try:
            padded = found[1].replace(",", "/") + "=" * (-len(found[1]) % 4)
            return binascii.a2b_base64(padded).decode("utf-16-be")
        except (binascii.Error, UnicodeDecodeError):
            return found[0]

    return _ENCODED.sub(decoded, raw)


def encode_name(name: str) -> str:
    """Return the name of a folder in modified UTF-7."""

    def encoded(found: re.Match[str]) -> str:
        if found[0] == "&":
            return "&-"
        data = binascii.b2a_base64(found[0].encode("utf-16-be", "surrogatepass"), newline=False)
        return f"&{data.rstrip(b'=').replace(b'/', b',').decode()}-"

    return _TO_ENCODE.sub(encoded, name)


def folder_from(raw: str, attributes: Sequence[str]) -> Folder:
    """Return the folder of a LIST response. Names outside of ASCII are from servers that speak UTF-8."""
    name = decode_name(raw) if raw.isascii() else raw
    flags = [flag.casefold() for flag in attributes]
    use: Use = next((_USES[flag] for flag in flags if flag in _USES), "")
    if raw.casefold() == "inbox":
        use = "inbox"
    return Folder(name, raw, use, not {"\\noselect", "\\nonexistent"} & set(flags))


def folder_for(use: Use, folders: Sequence[Folder]) -> Folder | None:
    """Return the folder for a use: the one that the server marks, or the first with a usual name."""
    chosen = [folder for folder in folders if folder.selectable]
    if (marked := next((folder for folder in chosen if folder.use == use), None)) is not None:
        return marked
    last = {folder.name.casefold().replace("/", ".").rpartition(".")[2]: folder for folder in chosen[::-1]}
    return next((last[name] for name in _USUAL.get(use, ()) if name in last), None)


def folder_named(name: str, folders: Sequence[Folder]) -> Folder | None:
    """Return the folder with this name, or for this use (`sent`, `drafts`, …), without regard to case."""
    wanted = name.strip().casefold()
    same = (folder for folder in folders if folder.selectable and folder.name == name.strip())
    alike = (folder for folder in folders if folder.selectable and folder.name.casefold() == wanted)
    found = next(same, None) or next(alike, None)
    if found is None and wanted in (*_USUAL, "inbox", "all"):
        found = folder_for(wanted, folders)
    return found
