"""What may deceive about the sender of a mail: names like addresses, and letters that look alike."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_ADDRESS: Final = re.compile(r"[^\s<>()\[\],;:\"@]+@[^\s<>()\[\],;:\"@]+\.[^\s<>()\[\],;:\"@]+")
_SCRIPTS: Final = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE")
"""Scripts with letters that look like those of another one."""


@dataclass(frozen=True, slots=True)
class MailAddress:
    """An address of a mail's header, and the name beside it. Both come from others."""

    name: str
    address: str

    def __str__(self) -> str:
        return f"{self.name} <{self.address}>" if self.name else self.address

    @property
    def domain(self) -> str:
        """The part after the last @, in lower case."""
        return self.address.rpartition("@")[2].casefold()


def warnings_about(sender: Sequence[MailAddress], reply_to: Sequence[MailAddress]) -> tuple[str, ...]:
    """Return what may deceive about the sender of a mail, in sentences."""
    found: list[str] = []
    if len(sender) != 1:
        found.append(f"The mail names {len(sender)} senders.")
    for one in sender[:5]:
        shown = _ADDRESS.search(one.name)
        if shown is not None and shown[0].casefold() != one.address.casefold():
            found.append(f"The sender's name shows the address {shown[0]}, but the mail names {one.address}.")
        if mixes_scripts(one.name):
            found.append("The sender's name mixes letters of several alphabets that look alike.")
        if (unusual := unusual_domain(one.domain)) is not None:
            found.append(unusual)
    addresses = {one.address.casefold() for one in sender}
    others = [one.address for one in reply_to if one.address.casefold() not in addresses]
    if others:
        found.append(f"Answers go to another address: {', '.join(others[:5])}.")
    return tuple(found)


def unusual_domain(domain: str) -> str | None:
    """Return a sentence about a domain that has other than ASCII letters; None for an ordinary one."""
    labels = domain.split(".")
    if domain.isascii() and not any(label.startswith("xn--") for label in labels):
        return None
    try:
        plain = ".".join(
            label[4:].encode().decode("punycode") if label.startswith("xn--") else label for label in labels
        )
    except (UnicodeError, ValueError):
        plain = domain
    if any(map(mixes_scripts, plain.split("."))) or not any("LATIN" in _scripts(part) for part in [plain]):
        return f"The domain {domain} ({plain}) has letters that look like those of other names."
    return f"The domain {domain} ({plain}) has other than plain letters."


def mixes_scripts(text: str) -> bool:
    """Return True if a word of the text has letters of several alphabets whose letters look alike."""
    return any(len(_scripts(word)) > 1 for word in re.findall(r"[^\W\d_]+", text[:1000]))


def _scripts(word: str) -> set[str]:
    names = (unicodedata.name(letter, "") for letter in word if letter.isalpha())
    return {script for name in names for script in _SCRIPTS if name.startswith(script)}
