"""Parsing of repository addresses: https URLs and, if allowed, local folders."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rumi.tasks.research.repository.errors import CloneError
from rumi.web.messages import FetchRefused
from rumi.web.url import parse_target

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://|:)")
_SCP: Final = re.compile(r"[^/\s]+@[^/\s]+:")


@dataclass(frozen=True, slots=True)
class RepositoryAddress:
    """A normalized repository address. `folder` is None for a remote repository."""

    text: str
    folder: Path | None = None


def parse_address(uri: str, *, local_allowed: bool) -> RepositoryAddress:
    """Parse a repository's address, which a person or a model wrote.

    Raises:
        CloneError: The scheme is refused, the URL is invalid, or a local folder is not allowed.
    """
    text = uri.strip()
    scheme = _SCHEME.match(text)
    if scheme is not None and scheme[1].lower() != "https":
        raise CloneError(
            "Repositories are not fetched over {scheme}.",
            "Give its address with https://.",
            scheme=scheme[1].lower(),
        )
    if scheme is None:
        if _SCP.match(text):
            raise CloneError("Repositories are not fetched over ssh.", "Give its address with https://.")
        return _folder(text, local_allowed=local_allowed)
    try:
        target = parse_target(text)
    except FetchRefused as error:
        raise CloneError(error.message, error.advice) from None
    if "?" in target.path_and_query:
        raise CloneError("The address of a repository has no ?.", "Give the address that git would clone.")
    return RepositoryAddress(f"https://{target.authority}{target.path_and_query}".rstrip("/"))


def _folder(text: str, *, local_allowed: bool) -> RepositoryAddress:
    if not local_allowed:
        raise CloneError(
            "A repository on this machine can only be read from the command line.",
            "Give an address with https://.",
        )
    if not text or "\0" in text or text.startswith("-"):
        raise CloneError("This is not the address of a repository.", "Give an address with https://.")
    folder = Path(text).expanduser().absolute()
    return RepositoryAddress(str(folder), folder)
