"""References to API keys in the configuration: a variable or a command, never the key itself."""

import re
from dataclasses import dataclass
from typing import Final

from rumi.texts import Text

_REFERENCE: Final = re.compile(
    r"\$([A-Za-z_][A-Za-z0-9_]*)|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*)"
)

KEY_FORMS: Final = Text(
    'A key is given as "$MY_KEY", the name of a set variable, or "!command" of a password manager; '
    "the key itself belongs in the environment or in .env."
)


@dataclass(frozen=True, slots=True)
class KeySource:
    """The variable or command that provides a key. `bare` marks a word without `$`, which may be a key."""

    variable: str = ""
    command: str = ""
    bare: bool = False


def key_source(text: str) -> KeySource:
    """Parse a reference to a key: `$NAME`, `${NAME}`, `NAME` or `!COMMAND`.

    Raises:
        ValueError: The text is not a reference. The error does not show it, because it may be a key.
    """
    if text.startswith("!") and text[1:].strip():
        return KeySource(command=text[1:].strip())
    matched = _REFERENCE.fullmatch(text)
    if matched is None:
        raise ValueError(
            'a reference such as "$MY_KEY" or "!command"; the key itself belongs in the environment or .env'
        )
    return KeySource(matched[1] or matched[2] or matched[3], bare=matched[3] is not None)
