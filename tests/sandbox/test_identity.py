"""Who the commands of the sandboxes run as."""

import os

import pytest

from rumi.sandbox.identity import sandbox_user


@pytest.mark.parametrize(
    ("ours", "theirs"), [((0, 0), (1000, 1000)), ((1001, 1002), (1001, 1002)), ((1001, 0), (1001, 1001))]
)
def test_commands_never_run_as_root(
    ours: tuple[int, int], theirs: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: ours[0])
    monkeypatch.setattr(os, "getgid", lambda: ours[1])
    assert sandbox_user() == theirs
