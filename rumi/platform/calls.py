"""Typed declarations of the requests that the control socket serves.

A class declares each request that it answers with `call`:

    @call("tasks.stop", key=PartitionKey("id", of="task"))
    async def stop(self, caller: Caller, *, id: int) -> object:
        ...

This method answers `{"call": "tasks", "do": "stop", "id": 7}`. A name without a point answers every request
of that call for which no other name is declared; the field `do` is ignored. The keyword arguments are the
fields of the request. A field that is null counts as absent, and so does a `language` that this version does
not know. Fields that are not declared are ignored, because newer processes may send them. An argument whose
type is a dataclass takes the dataclass's fields from the request.

Validation, forwarding between workers (`rumi.app.routing`) and `docs/calls.md` follow from the declaration.
"""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from dataclasses import Field as DataclassField
from functools import cache, partial
from inspect import Parameter, signature
from typing import Any, Concatenate, Final, Literal, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from rumi.errors import UsageError
from rumi.platform.caller import Caller, ControlCall, Rights
from rumi.platform.texts.language import known_language
from rumi.texts import Text

Method = TypeVar("Method", bound=Callable[Concatenate[Any, Caller, ...], Awaitable[object]])

_DECLARED: Final = "declared_call"


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """The chat or owner that decides which worker answers a request.

    It is the value of a `field` of the request or, with `of`, the partition key of the row that the field
    identifies. Without such a value or row, it is `default`; None means that any worker can answer.
    """

    field: str
    of: Literal["", "task", "schedule", "bot"] = ""
    default: str | None = None


CHAT: Final = PartitionKey("chat")


@dataclass(frozen=True, slots=True)
class Declaration:
    """A declared request: its full `name`, its method, the rights that its caller needs, and its key."""

    name: str
    method: Callable[..., Awaitable[object]]
    rights: Rights
    key: PartitionKey | None
    stream: bool

    def arguments(self, request: Mapping[str, object]) -> dict[str, Any]:
        """Return the keyword arguments of the method, from the fields of a request.

        Raises:
            UsageError: A field is missing or not valid.
        """
        language = known_language(request.get("language"))
        given = {
            name: value for name, value in {**request, "language": language}.items() if value is not None
        }
        try:
            valid = _model(self.method).model_validate(given)
        except ValidationError as error:
            raise self._refusal(error) from None
        values = {name: getattr(valid, name) for name in valid.model_fields_set}
        for name, kind in _hints(self.method).items():
            if is_dataclass(kind):
                names = [field.name for field in fields(kind) if field.name in values]
                values[name] = kind(**{part: values.pop(part) for part in names})  # type: ignore[operator]
        return values

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the fields."""
        return _model(self.method).model_json_schema()

    def _refusal(self, error: ValidationError) -> UsageError:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        advice = Text("docs/calls.md lists the fields of each call.")
        if first["type"] == "missing":
            return UsageError("The call {call} needs the field {field}.", advice, call=self.name, field=field)
        return UsageError(
            "The field {field} of the call {call} is not valid: {why}.",
            advice,
            call=self.name,
            field=field,
            why=first["msg"],
        )


def call(
    name: str, *, rights: Rights = "own", key: PartitionKey | None = None, stream: bool = False
) -> Callable[[Method], Method]:
    """Declare that a method answers the requests called `name`.

    The method gets the caller, then the values that the server of a stream adds, then the fields. `rights`
    are the rights that the caller needs. Without `key`, any worker can answer.
    """

    def declare(method: Method) -> Method:
        setattr(method, _DECLARED, Declaration(name, method, rights, key, stream))
        return method

    return declare


def declared_in(kind: type) -> Mapping[str, Declaration]:
    """Return the declarations of a class and its bases, by name."""
    methods = (method for base in reversed(kind.__mro__) for method in vars(base).values())
    found = (getattr(method, _DECLARED, None) for method in methods)
    return {declared.name: declared for declared in found if isinstance(declared, Declaration)}


def lookup(table: Mapping[str, Declaration], name: str, request: Mapping[str, object]) -> Declaration | None:
    """Return the declaration that a request of the call or stream `name` is for; None if there is none."""
    return table.get(f"{name}.{request.get('do')}") or table.get(name)


async def answer(part: Any, name: str, caller: Caller, request: Mapping[str, object], *more: object) -> Any:
    """Answer a request of the call or stream `name` with the method that `part` has declared for it.

    Raises:
        UsageError: The request is not declared, or a field is missing or not valid.
        NotAllowed: The caller does not have the rights that the declaration requires.
    """
    table = declared_in(type(part))
    declared = lookup(table, name, request)
    if declared is None:
        known = ", ".join(one.partition(".")[2] for one in table if one.startswith(f"{name}."))
        raise UsageError(
            'The call {call} does not know "do": {do}.',
            "It knows {known}.",
            call=name,
            do=json.dumps(request.get("do")),
            known=known,
        )
    if declared.rights == "all":
        caller.check_all()
    return await declared.method(part, caller, *more, **declared.arguments(request))


def served(part: Any) -> dict[str, ControlCall]:
    """Return the functions that answer the calls that `part` declares, by the name of the call."""
    names = {
        declared.name.partition(".")[0]: None
        for declared in declared_in(type(part)).values()
        if not declared.stream
    }
    return {name: partial(answer, part, name) for name in names}


@cache
def _hints(method: Callable[..., object]) -> dict[str, Any]:
    """Return the types of the keyword-only arguments."""
    hints = get_type_hints(method, include_extras=True)
    return {
        name: hints[name]
        for name, parameter in signature(method).parameters.items()
        if parameter.kind is Parameter.KEYWORD_ONLY
    }


@cache
def _model(method: Callable[..., object]) -> type[BaseModel]:
    """Return the pydantic model of a request's fields. It is built when the first request needs it."""
    found: dict[str, Any] = {name: (hint, default) for name, hint, default in _fields(method)}
    # Strict: JSON has its types, and a number is no text.
    return create_model(method.__qualname__, __config__=ConfigDict(strict=True), **found)


def _fields(method: Callable[..., object]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name, the type and the default of each field; the default is `...` for a required field."""
    parameters = signature(method).parameters
    for name, hint in _hints(method).items():
        if is_dataclass(hint):
            inner = get_type_hints(hint, include_extras=True)
            yield from ((field.name, inner[field.name], _default(field)) for field in fields(hint))
        else:
            default = parameters[name].default
            yield name, hint, ... if default is Parameter.empty else default


def _default(field: "DataclassField[Any]") -> Any:
    if field.default_factory is not MISSING:
        return Field(default_factory=field.default_factory)
    return ... if field.default is MISSING else field.default
