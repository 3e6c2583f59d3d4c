"""`rumi "question"`: what is a prompt, what a command, and what a misspelled command."""

import click
import pytest
from click.testing import CliRunner

from rumi.cli.group import LazyGroup, group


def parsed(*words: str) -> list[str]:
    """The words as `rumi` understands them, the command first; or what it says about them."""
    assert isinstance(group, LazyGroup)
    # The group keeps the help option of the first context that needs it.
    context = click.Context(group, info_name="rumi", help_option_names=["-h", "--help"])
    try:
        group.parse_args(context, list(words))
        name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
    except click.UsageError as error:
        return [error.message]
    assert command is not None
    return [str(name), *rest]


@pytest.mark.parametrize(
    "words",
    [
        ("what time is it?",), ("what time is it",), ("why?",), ("¿qué hora es?",),
        ("what", "time", "is", "it"), ("explain", "this"), ("show", "me", "the", "files"), ("line\nline",),
        ("sum", "it", "up", "-m", "offline"),
        ("memory is full?",), ("-x", "write code"), ("--resume",), ("-t", "greet", "hello"),
    ],
)  # fmt: skip
def test_words_for_the_assistant_are_a_prompt(words: tuple[str, ...]) -> None:
    assert parsed(*words) == ["chat", *words]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("chta",), "Did you mean 'chat'?"),
        (("chta", "-p", "what time is it"), "Did you mean 'chat'?"),
        (("memry", "list"), "Did you mean 'memory'?"),
        (("memry", "set", "a", "b"), "Did you mean 'memory'?"),
        (("hepl",), "Did you mean 'help'?"),
        (("repaly",), "Did you mean 'debug replay'?"),
        (("explain",), "To ask it: rumi -p 'explain'"),
        (("hello",), "To ask it: rumi -p 'hello'"),
    ],
)
def test_a_misspelled_command_gets_a_suggestion(words: tuple[str, ...], said: str) -> None:
    (message,) = parsed(*words)
    assert said in message


def test_a_command_stays_a_command() -> None:
    assert parsed("memory", "list") == ["memory", "list"]
    assert parsed("fetch", "me", "the", "news") == ["fetch", "me", "the", "news"]


@pytest.mark.parametrize("words", [(), ("memory",), ("memory", "list")])
def test_the_word_help_shows_the_help_of_what_follows(words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(group, ["help", *words])
    assert (shown.exit_code, shown.output) == (0, CliRunner().invoke(group, [*words, "--help"]).output)
    assert parsed("help", "me", "write") == ["chat", "help", "me", "write"]
