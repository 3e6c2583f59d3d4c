"""The page of recipes: each of them is played, and what a test takes from it is what stands there."""

import re
from importlib import import_module

from tests.conftest import ROOT
from tests.recipes.page import Recipe, recipe, recipes

MODULES = ("unattended", "in_a_chat")


def test_each_of_the_ten_recipes_is_played_once() -> None:
    played = [
        number for name in MODULES for number in import_module(f"tests.recipes.test_recipes_{name}").PLAYED
    ]
    assert sorted(played) == [*recipes()] == [*range(1, 11)]


def test_each_recipe_says_what_people_get_and_what_it_asks_for() -> None:
    for number, (title, text) in recipes().items():
        marks = re.findall(r"^\*\*(.+?)\*\*", text, re.MULTILINE)
        assert marks == ["You get", "What happens.", "What it asks for."], title
        assert recipe(number).blocks, title


def test_the_readme_and_the_decision_name_the_page() -> None:
    assert "(docs/recipes.md)" in (ROOT / "README.md").read_text("utf-8")
    (decision,) = (ROOT / "docs" / "decisions").glob("0129-*.md")
    rows = re.findall(r"^\| (\d+) \| .*$", decision.read_text("utf-8"), re.MULTILINE)
    assert [*map(int, rows)] == [*range(1, 41)]
    named = re.findall(r"\[recipe (\d+)\]", decision.read_text("utf-8"))
    assert sorted(map(int, named)) == [*recipes()]


def test_a_block_that_no_test_takes_is_left() -> None:
    found = Recipe(
        "Tea",
        [("sh", "boil https://tea.example.org\n"), ("text", "one\ntwo\n")],
        {r"https://\w+\.example\.org": "http://a"},
    )
    assert found.has("sh", "boil")
    assert not found.has("sh", "fry")
    assert not found.has("toml")
    assert found.take("sh") == "boil http://a\n"
    assert not found.is_played()
    assert found.said() == ["one", "two"]
    assert found.is_played()
