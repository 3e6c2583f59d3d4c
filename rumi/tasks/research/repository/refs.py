"""The branches and tags of a repository, and what a name means among them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

BRANCH: Final = "refs/heads/"
TAG: Final = "refs/tags/"
USUAL: Final = ("main", "master", "trunk", "develop", "development", "default", "dev")
"""The names that a default branch usually has, in the order in which they are tried."""

_OID: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_OF_REMOTES: Final = ("origin/", "refs/remotes/origin/")
_LIKE_A_COMMIT: Final = re.compile(r"[0-9a-f]{4,39}")


def is_oid(text: str) -> bool:
    """Return True if the text is a full object id."""
    return _OID.fullmatch(text) is not None


def by_number(name: str) -> list[tuple[int, str]]:
    """Return a sort key that compares numbers by value, so that `v1.10` comes after `v1.9`."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


@dataclass(frozen=True, slots=True)
class Ref:
    """A branch, a tag or another reference of a repository.

    For an annotated tag, `commit` is the tag's target; otherwise it equals `oid`.
    """

    name: str
    oid: str
    commit: str

    @property
    def kind(self) -> str:
        """Return `branch`, `tag` or `ref`."""
        return "branch" if self.name.startswith(BRANCH) else "tag" if self.name.startswith(TAG) else "ref"

    @property
    def short(self) -> str:
        """Return the name without `refs/heads/` or `refs/tags/`."""
        return self.name.removeprefix(BRANCH).removeprefix(TAG)


@dataclass(frozen=True, slots=True)
class Refs:
    """The references of a repository. `head` is the name of its default branch, or an empty string.

    `dangling` is the missing branch that HEAD names. In that case `head` is a branch that exists.
    """

    head: str
    head_oid: str
    by_name: dict[str, Ref]
    dangling: str = ""

    def find(self, text: str) -> Ref | None:
        """Return the reference that a name means, or None.

        A full name comes first, then the tag and then the branch of this name, as in git's `rev-parse`. All
        tools use this order, whatever the clone has at the moment.
        """
        if text in ("", "HEAD"):
            if self.head:
                return self.by_name[self.head]
            return Ref("HEAD", self.head_oid, self.head_oid) if self.head_oid else None
        names = [text, f"refs/{text}", f"{TAG}{text}", f"{BRANCH}{text}"]
        names += [f"{BRANCH}{text.removeprefix(remote)}" for remote in _OF_REMOTES if text.startswith(remote)]
        return next((self.by_name[name] for name in names if name in self.by_name), None)

    def meaning(self, text: str) -> str:
        """Return a sentence that says which reference a name means; nothing if it can mean only one."""
        found = None if text in ("", "HEAD") or is_oid(text) else self.find(text)
        if found is None or found.name in (text, f"refs/{text}"):
            return ""
        branch = self.by_name.get(f"{BRANCH}{text}")
        if found.kind == "tag" and branch is not None:
            same = " Both are the same commit." if branch.commit == found.commit else ""
            return f"{text} is a tag and a branch: the tag is meant. The branch is {branch.name}.{same}"
        if _LIKE_A_COMMIT.fullmatch(text):
            return f"{text} is the {found.kind} of this name here, not a commit that begins with it."
        return ""


def with_head(name: str, oid: str, by_name: Mapping[str, Ref]) -> Refs:
    """Return the references with a default branch. `name` and `oid` are HEAD's; each may be empty.

    If HEAD has no commit, because it names a branch that does not exist, another one is taken: the one with
    the most usual name, or the only one, or the highest by number; without branches, the highest tag.
    """
    found = dict(by_name)
    if name in found:
        return Refs(name, oid or found[name].oid, found)
    if oid or not found:
        return Refs("", oid, found)
    usual = [BRANCH + word for word in USUAL if BRANCH + word in found]
    branches, tags = ([ref for ref in found if ref.startswith(kind)] for kind in (BRANCH, TAG))
    head = usual[0] if usual else max(branches or tags or found, key=by_number)
    return Refs(head, found[head].oid, found, name or "HEAD")
