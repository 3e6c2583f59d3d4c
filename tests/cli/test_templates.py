"""Templates: their variables, what is missing, and what is stored where."""

from pathlib import Path

import pytest

from rumi.cli.templates import (
    PIPED,
    filled,
    read_template,
    template_names,
    values_in,
    variables_of,
    write_template,
)
from rumi.errors import UsageError


def test_a_template_gets_its_values_and_the_text_of_the_command_line() -> None:
    text = "Translate to ${lang}, for $$5: $input"
    assert filled("t", text, {"lang": "es"}, "good day", piped=False) == "Translate to es, for $5: good day"
    assert filled("t", "Explain it", {}, "this", piped=False) == "Explain it\n\nthis"
    assert filled("t", "Explain it", {}, None, piped=True) == "Explain it"


def test_piped_text_stays_data_and_never_becomes_the_prompt() -> None:
    assert filled("t", "Sum up $input", {}, None, piped=True) == f"Sum up {PIPED}"


def test_a_value_is_text_even_if_it_looks_like_a_variable() -> None:
    assert filled("t", "$a $b", {"a": "$b", "b": "$input"}, None, piped=False) == "$b $input"


@pytest.mark.parametrize(
    ("text", "values", "given", "said"),
    [
        ("$who in $lang", {}, None, "needs: who, lang. Give them with: -v who=… -v lang=…"),
        ("$who: $input", {"who": "Ana"}, None, "needs: input. Write the text after the options"),
        ("$who", {"who": "Ana", "foo": "1"}, None, "has no variable foo. Its variables are: who."),
        ("plain", {"foo": "1"}, None, "has no variable foo. It has no variables."),
        ("a\nb $ c", {}, None, "has a $ without a variable in line 2. Write $$ for a dollar sign."),
    ],
)
def test_what_is_missing_or_wrong_is_named(
    text: str, values: dict[str, str], given: str | None, said: str
) -> None:
    with pytest.raises(UsageError) as error:
        filled("t", text, values, given, piped=False)
    assert said in f"{error.value.message} {error.value.advice}"


def test_templates_come_from_the_home_and_an_unknown_one_lists_them(tmp_path: Path) -> None:
    assert template_names(tmp_path) == []
    path = write_template(tmp_path, "greet", "Hello $name")
    write_template(tmp_path, "sum-up", "Sum up $input")
    assert (path, path.read_text()) == (tmp_path / "templates" / "greet.md", "Hello $name\n")
    assert variables_of("greet", read_template(tmp_path, "greet")) == ["name"]
    with pytest.raises(UsageError) as error:
        read_template(tmp_path, "gone")
    assert "greet, sum-up" in str(error.value.advice)
    for name in ("../config", "a/b", "", ".", "x" * 65, "a.md"):
        with pytest.raises(UsageError):
            read_template(tmp_path, name)
    with pytest.raises(UsageError):
        write_template(tmp_path, "bad", "a $ alone")
    assert template_names(tmp_path) == ["greet", "sum-up"]


def test_values_are_written_as_name_and_value() -> None:
    assert values_in(("a=1", "b=x=y", "c=")) == {"a": "1", "b": "x=y", "c": ""}
    for wrong in ("a", "=1", "a b=1"):
        with pytest.raises(UsageError):
            values_in((wrong,))
