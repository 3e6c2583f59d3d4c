"""Where a key is: in a variable, or in what a command prints. It is never in the configuration itself."""

import re
from dataclasses import dataclass
from typing import Final

_REFERENCE: Final = re.compile(
    r"\$([A-Za-z_][A-Za-z0-9_]*)|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*)"
)

KEY_FORMS: Final = (
    'A key is given as "$MY_KEY", the name of a set variable, or "!command" of a password '
    "manager; the key itself belongs in the environment or in .env."
)


@dataclass(frozen=True, slots=True)
class KeySource:
    """A variable or a command. `bare`: a word without `$`, which may be anything, also a key."""

    variable: str = ""
    command: str = ""
    bare: bool = False


def key_source(text: str) -> KeySource:
    """Return where a key is, from `$NAME`, `${NAME}`, `NAME` or `!COMMAND`.

    Raises:
        ValueError: It is none of these. The text is not in the error.
    """
    if text.startswith("!") and text[1:].strip():
        return KeySource(command=text[1:].strip())
    matched = _REFERENCE.fullmatch(text)
    if matched is None:
        raise ValueError(
            'a reference such as "$MY_KEY" or "!command"; the key itself belongs in the environment or .env'
        )
    return KeySource(matched[1] or matched[2] or matched[3], bare=matched[3] is not None)
