"""What a name means among the references of a repository."""

import pytest

from rumi.tasks.research.repository.refs import Ref, with_head

A, B, C = ("a" * 40, "b" * 40, "c" * 40)
NAMES = {
    "refs/heads/main": A,
    "refs/heads/v1": A,
    "refs/tags/v1": B,
    "refs/heads/same": C,
    "refs/tags/same": C,
    "refs/heads/feature/a/b": B,
    "refs/heads/beef": B,
    "refs/tags/heads/main": C,
    "refs/pull/7/head": C,
    "refs/heads/refs/heads/odd": C,
}
REFS = with_head("refs/heads/main", A, {name: Ref(name, oid, oid) for name, oid in NAMES.items()})


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", "refs/heads/main"),
        ("HEAD", "refs/heads/main"),
        ("main", "refs/heads/main"),
        ("v1", "refs/tags/v1"),
        ("refs/heads/v1", "refs/heads/v1"),
        ("heads/v1", "refs/heads/v1"),
        ("tags/v1", "refs/tags/v1"),
        ("feature/a/b", "refs/heads/feature/a/b"),
        ("origin/main", "refs/heads/main"),
        ("refs/remotes/origin/feature/a/b", "refs/heads/feature/a/b"),
        ("pull/7/head", "refs/pull/7/head"),
        ("heads/main", "refs/heads/main"),
        ("refs/heads/odd", "refs/heads/refs/heads/odd"),
        ("beef", "refs/heads/beef"),
        ("nothing", ""),
        ("feature", ""),
    ],
)
def test_a_name_means_one_reference(text: str, name: str) -> None:
    found = REFS.find(text)
    assert (found.name if found else "") == name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("v1", "v1 is a tag and a branch: the tag is meant. The branch is refs/heads/v1."),
        ("same", "Both are the same commit."),
        ("beef", "beef is the branch of this name here, not a commit that begins with it."),
        ("main", ""),
        ("refs/heads/v1", ""),
        ("tags/v1", ""),
        ("", ""),
        ("HEAD", ""),
        (A, ""),
        ("nothing", ""),
    ],
)
def test_what_a_name_means_is_said_where_it_could_mean_two_things(text: str, said: str) -> None:
    assert said in REFS.meaning(text)
    assert bool(said) == bool(REFS.meaning(text))
