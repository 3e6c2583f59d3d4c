"""The one error of a repository that cannot be had."""

from typing import ClassVar

from rumi.errors import RumiError


class CloneError(RumiError):
    """A repository could not be fetched or opened. `code` is its kind for programs."""

    code: ClassVar[str] = "clone"
