"""The error of repositories that cannot be cloned."""

from rumi.errors import RumiError


class CloneError(RumiError):
    """A repository could not be fetched or opened."""

    code = "clone"
