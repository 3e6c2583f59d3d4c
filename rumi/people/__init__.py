"""People: who speaks, the role that they have, and what it allows."""

from rumi.people.commands import may_do
from rumi.people.people import OWNER, People, Speaker
from rumi.people.rights import ADMIN, BUILT_IN, GUEST, MEMBER, NOBODY, Rights, RightsError

__all__ = [
    "ADMIN",
    "BUILT_IN",
    "GUEST",
    "MEMBER",
    "NOBODY",
    "OWNER",
    "People",
    "Rights",
    "RightsError",
    "Speaker",
    "may_do",
]
