"""`rumi config people`: lists, adds and removes people, and what the doctor says about them."""

import json
from pathlib import Path

from rumi.cli.doctor.settings import settings
from rumi.platform.config.cascade import load_settings
from rumi.platform.home import Home
from tests.cli.program import Program


def test_people_are_added_listed_and_removed(tmp_path: Path) -> None:
    rumi = Program(tmp_path / "home")
    rumi.run("people", "add", "ann", "--telegram", "11", "--telegram", "12", "--role", "guest")
    listed = json.loads(rumi.run("people", "list", "--json").stdout)
    assert [(row["name"], row["role"], row["ids"]) for row in listed] == [
        ("local", "admin", []),
        ("ann", "guest", [11, 12]),
    ]
    assert listed[1]["tools"] == ["web_search", "web_fetch", "recall"]
    assert "ann  guest  11 12" in rumi.run("people", "list").stdout
    said = rumi.run("people", "add", "bob", "--telegram", "11", code=2).stderr
    assert "belongs to ann and to bob" in said
    said = rumi.run("people", "add", "bob", "--telegram", "13", "--role", "queen", code=2).stderr
    assert "queen is not a role" in said
    rumi.run("people", "remove", "ann")
    assert "ann" not in (rumi.home / "config.toml").read_text()
    assert "Unknown person ann" in rumi.run("people", "remove", "ann", code=2).stderr


def test_the_doctor_names_an_id_that_two_places_give_different_roles(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        '[telegram]\nadmins = [11]\n[people.ann]\ntelegram = [11]\nrole = "guest"\n'
    )
    found = {check.name: check for check in settings(Home(tmp_path), load_settings(tmp_path, {}, {}))}
    assert found["people"].verdict == "warning"
    assert "ann has the role guest" in found["people"].found
