"""`rumi "question"`: what is a prompt, what a command, and what a misspelled command."""

import click
import pytest

from rumi.cli.group import LazyGroup, group


def parsed(*words: str) -> list[str]:
    """The words as `rumi` understands them, the command first; or what it says about them."""
    assert isinstance(group, LazyGroup)
    context = click.Context(group, info_name="rumi")
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
        (("hello",), "To ask it: rumi -p 'hello'"),
    ],
)
def test_a_misspelled_command_gets_a_suggestion(words: tuple[str, ...], said: str) -> None:
    (message,) = parsed(*words)
    assert said in message


def test_a_command_stays_a_command() -> None:
    assert parsed("memory", "list") == ["memory", "list"]
    assert parsed("fetch", "me", "the", "news") == ["fetch", "me", "the", "news"]
