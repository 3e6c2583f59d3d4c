"""The configuration: config.toml, the environment and flags; the keys and tokens; and the path of the home.

`load_settings` and its result import pydantic, which takes longer than some commands run: those names are
imported at their first use.
"""

from typing import TYPE_CHECKING

from rumi.config.files import find_home, home_from, home_path
from rumi.config.secrets import Secret

if TYPE_CHECKING:
    from rumi.config.cascade import Loaded, load_settings

__all__ = ["Loaded", "Secret", "find_home", "home_from", "home_path", "load_settings"]


def __getattr__(name: str) -> object:
    if name in ("Loaded", "load_settings"):
        from rumi.config import cascade

        return getattr(cascade, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
