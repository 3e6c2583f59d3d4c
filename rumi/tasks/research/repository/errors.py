"""The one error of a repository that cannot be had."""

from rumi.errors import RumiError


class CloneError(RumiError):
    """A repository could not be fetched or opened."""

    code = "clone"
