"""Declared control calls: which fields a request may have, and what a caller is told about bad ones."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from rumi.errors import UsageError
from rumi.platform.caller import PROGRAM, TERMINAL, Caller, NotAllowed
from rumi.platform.calls import PartitionKey, answer, call, declared_in, lookup, served
from rumi.texts import Language


@dataclass(frozen=True, slots=True)
class Parcel:
    weight: int
    note: str = ""


class Post:
    @call("post.send", key=PartitionKey("to", default="local"))
    async def send(
        self, caller: Caller, *, parcel: Parcel, to: str, language: Language = "en", fast: bool = False
    ) -> object:
        return [caller.owner, parcel, to, language, fast]

    @call("post.close", rights="all")
    async def close(self, caller: Caller) -> object:
        return "closed"

    @call("weigh")
    async def weigh(self, caller: Caller, *, options: Mapping[str, object] | None = None) -> object:
        return options

    @call("belt", stream=True)
    async def belt(self, caller: Caller, started: str, *, speed: int = 1) -> object:
        return [started, speed]


SENT = {"do": "send", "weight": 7, "to": "den"}


async def sent(**fields: object) -> object:
    return await answer(Post(), "post", TERMINAL, {**SENT, **fields})


async def test_a_method_gets_the_fields_that_it_declares() -> None:
    assert await sent(note="x", fast=True) == ["local", Parcel(7, "x"), "den", "en", True]
    assert await served(Post())["weigh"](TERMINAL, {"options": {"a": [1]}}) == {"a": [1]}


async def test_fields_of_newer_processes_and_nulls_are_ignored() -> None:
    assert await sent(colour="red", note=None, fast=None) == ["local", Parcel(7), "den", "en", False]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"weight": "7"}, "The field weight of the call post.send is not valid"),
        ({"weight": True}, "The field weight of the call post.send is not valid"),
        ({"to": 7}, "The field to of the call post.send is not valid"),
        ({"to": None}, "The call post.send needs the field to."),
        ({"fast": "yes"}, "The field fast of the call post.send is not valid"),
    ],
)
async def test_a_bad_field_is_named(fields: dict[str, object], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        await sent(**fields)


@pytest.mark.parametrize("do", ["fly", None, 7, ["send"]])
async def test_what_a_call_does_not_know_is_said_with_what_it_knows(do: object) -> None:
    with pytest.raises(UsageError, match=r'The call post does not know "do": .* It knows send, close\.'):
        await answer(Post(), "post", TERMINAL, {"do": do})


async def test_a_call_for_the_homes_owner_is_refused_to_others() -> None:
    assert await answer(Post(), "post", TERMINAL, {"do": "close"}) == "closed"
    with pytest.raises(NotAllowed):
        await answer(Post(), "post", PROGRAM, {"do": "close"})


async def test_an_unknown_language_is_as_none() -> None:
    assert "es" in str(await sent(language="es"))
    assert await sent(language="tlh") == await sent(language=5) == await sent()


async def test_a_stream_has_its_own_values_before_the_fields() -> None:
    assert await answer(Post(), "belt", TERMINAL, {"speed": 3}, "now") == ["now", 3]
    assert set(served(Post())) == {"post", "weigh"}


def test_declarations_tell_the_key_and_the_schema() -> None:
    table = declared_in(Post)
    found = lookup(table, "post", {"do": "send"})
    assert found is not None
    assert found.key == PartitionKey("to", default="local")
    assert found.schema()["required"] == ["weight", "to"]
    assert lookup(table, "post", {}) is None
    assert lookup(table, "weigh", {"do": "anything"}) is table["weigh"]
