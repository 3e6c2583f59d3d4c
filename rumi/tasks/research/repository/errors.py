"""The error that is raised if a repository cannot be cloned."""

from rumi.errors import RumiError


class CloneError(RumiError):
    """A repository could not be fetched or opened."""

    code = "clone"
