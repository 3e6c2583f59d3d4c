"""The page's rows of what Rumi is connected with."""

from typing import Any

import pytest

from rumi.channels.page.view import view_of


@pytest.mark.parametrize(
    ("trouble", "error"), [(None, ""), ("The homeserver did not answer.", "The homeserver did not answer.")]
)
def test_each_matrix_account_has_a_row_which_only_the_owner_sees(trouble: str | None, error: str) -> None:
    figures: dict[str, Any] = {"matrix": "@rumi:example.org", "stored": 3, "trouble": trouble}
    node = {"id": "matrix-home", "kind": "actor", "state": "running", "incarnation": 1, "restarts": 0}
    node |= {"mailbox": {"depth": 0, "capacity": 64}, "doing": "", "age_s": 1.0, "last_error": None}
    sync = {**node, "figures": figures, "children": []}
    dump = {
        "tree": {**node, "id": "rumi", "figures": {}, "children": [sync]},
        "plugins": [{"name": "rumi-x", "problems": ["a", "b"]}],
    }
    assert view_of(dump, lambda id: True)["services"] == [
        {"kind": "matrix", "name": "@rumi:example.org", "used": None, "error": error, "messages": 3},
        {"kind": "plugin", "name": "rumi-x", "used": None, "error": "a; b"},
    ]
    assert view_of(dump, lambda id: False)["services"] == []
