"""The settings that the page may change: an explicit list, with a description of each for people.

A setting is on the list only if its owner can lose nothing but comfort or a limit by a wrong value. Never on
it are keys, addresses, paths and programs, and what limits sandboxes, tools, people and the web: a wrong
value there could let others in, or lead data out (docs/decisions/0140-settings-on-the-page.md).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le

from rumi.errors import UsageError
from rumi.platform.config.fitting import types_in
from rumi.platform.config.schema import Section, Settings
from rumi.texts import Text


def _budgets() -> dict[str, Text]:
    """Return the amounts of `[budget]`."""
    whose = {
        "total": Text("all chats together"),
        "owner": Text("each owner of chats"),
        "chat": Text("each chat"),
        "task": Text("each task"),
        "bot": Text("each bot"),
        "person": Text("each person"),
    }
    often = {"day": Text("a day"), "month": Text("a month")}
    found = {}
    for scope, who in whose.items():
        for period, per in often.items():
            found[f"budget.{scope}_usd_per_{period}"] = Text(
                "How many US dollars the model calls of {who} may cost in {per}.", who=who, per=per
            )
            found[f"budget.{scope}_tokens_per_{period}"] = Text(
                "How many tokens the model calls of {who} may use in {per}.", who=who, per=per
            )
    return found


CHANGEABLE: Final[Mapping[str, Text]] = MappingProxyType(
    {
        "language": Text("The language of texts; auto takes the one of the browser or of the terminal."),
        "chat.when_busy": Text(
            "What a message does while another one is worked on: it waits (queue), it joins in (steer), or "
            "it is refused (reject)."
        ),
        "chat.max_queued": Text("How many messages of a chat may wait."),
        "chat.together_s": Text("Within how many seconds messages of a person count as one message."),
        "session.ttl_s": Text("After how many seconds without a message a new session begins."),
        "agent.check_before_end": Text("Whether the model checks what it has changed before it answers."),
        "memory.extract": Text("Whether facts about you are remembered from what you say."),
        "memory.max_facts": Text("How many facts a prompt may have."),
        "undo.turns": Text("How many turns of each chat can be undone."),
        "record.turns": Text("How many turns of each chat are recorded, so that faults can be looked into."),
        "skills.max_in_prompt": Text("How many skills a prompt lists."),
        "schedules.quiet": Text("The hours in which no schedule runs, such as 23:00-08:00; empty for none."),
        "schedules.max_per_owner": Text("How many schedules each owner of chats may have."),
        "bots.max_calls_per_day": Text("How many model calls a bot may make in a day."),
        "bots.question_days": Text("For how many days a bot waits for an answer."),
        "tasks.max_running": Text("How many tasks may run at once."),
        "tasks.max_usd": Text("How many US dollars the model calls of a task may cost."),
        "tasks.max_tokens": Text("How many tokens the model calls of a task may use."),
        "voice.answer": Text("Which answers are also spoken."),
        "terminal.keys": Text("The keys of the terminal's input line."),
        "terminal.theme": Text("The background of the terminal; auto asks the terminal."),
        "terminal.notify": Text("How the terminal calls you when a long turn has ended."),
        "terminal.notify_s": Text("After how many seconds of work the terminal calls you."),
        **_budgets(),
    }
)
"""The settings that the page may change, by name."""


def about(name: str) -> Text:
    """Return the description of a setting that the page may change.

    Raises:
        UsageError: The page may not change this setting.
    """
    if name not in CHANGEABLE:
        raise UsageError(
            "The setting {name} cannot be changed here.",
            "Change it in a terminal: rumi config set {name} VALUE",
            name=name,
        )
    return CHANGEABLE[name]


def form_of(name: str) -> dict[str, object]:
    """Return the type, the choices and the bounds of a setting, and its default.

    `type` is `choice`, `boolean`, `integer`, `number` or `text`. An `optional` setting may have no value.
    """
    *sections, key = name.split(".")
    section: type[Section] = Settings
    for part in sections:
        section = type(section.model_fields[part].default)
    field = section.model_fields[key]
    found = _parts(field.annotation)
    metadata = [*field.metadata, *(one for part in found for one in part[1])]
    choices = [choice for kind, _ in found if get_origin(kind) is Literal for choice in get_args(kind)]
    types = types_in(field.annotation)
    if choices:
        kind = "choice"
    elif bool in types:
        kind = "boolean"
    else:
        kind = "number" if float in types else "integer" if int in types else "text"
    return {
        "type": kind,
        "choices": choices,
        "optional": type(None) in types,
        "minimum": _bound(metadata, (Ge, Gt)),
        "maximum": _bound(metadata, (Le,)),
        "default": field.default,
    }


def _parts(annotation: Any) -> list[tuple[Any, tuple[Any, ...]]]:
    """Return the types of a union, each with its own metadata."""
    if get_origin(annotation) is Annotated:
        kind, *metadata = get_args(annotation)
        return [(inner, (*more, *metadata)) for inner, more in _parts(kind)]
    if get_origin(annotation) is Literal or not get_args(annotation):
        return [(annotation, ())]
    return [part for argument in get_args(annotation) for part in _parts(argument)]


def _bound(metadata: list[Any], kinds: tuple[type, ...]) -> object:
    """Return a bound in the metadata of a field; None if there is none."""
    for one in metadata:
        for inner in getattr(one, "metadata", (one,)):
            if isinstance(inner, kinds):
                return getattr(inner, type(inner).__name__.lower())
    return None
