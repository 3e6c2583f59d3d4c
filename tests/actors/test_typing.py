"""What mypy, strict, knows: the reply of an ask, and which messages an actor takes."""

from pathlib import Path

import pytest
import trio.testing

from actors import Actor, ChildSpec, Request, Supervisor, answers
from tests import mypy_snippet

SNIPPET = """
from dataclasses import dataclass
from typing import TypeVar, assert_type

from actors import Actor, ActorRef, ChildSpec, DynamicSupervisor, Request, Supervisor, answers

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Get(Request[int]):
    key: str


@dataclass(frozen=True, slots=True)
class Names(Request[list[str]]):
    pass


@dataclass(frozen=True, slots=True)
class Put:
    key: str
    value: int


class Store(Actor[Get | Names | Put]):
    async def receive(self, message: Get | Names | Put) -> None:
        assert_type(self.ref, ActorRef[Get | Names | Put])

    @answers(Get)
    async def get(self, message: Get) -> int:
        return len(message.key)

    @answers(Names)
    async def names(self, message: Names) -> list[str]:
        return ["a"]


class Wrong(Actor[Get | Names | Put]):
    async def receive(self, message: Get | Names | Put) -> object:  # expected: override
        return 1

    @answers(Get)  # expected: arg-type
    async def text(self, message: Get) -> str:
        return message.key

    @answers(Get)  # expected: arg-type
    async def nothing(self, message: Get) -> None:
        pass

    @answers(Get)  # expected: arg-type
    async def of_another(self, message: Names) -> int:
        return 1

    @answers(Names)  # expected: arg-type
    def at_once(self, message: Names) -> list[str]:
        return []

    @answers(Get, Names)
    async def any_other(self, message: Request[R]) -> R:
        raise NotImplementedError


root = Supervisor("root")
store = root.add(ChildSpec("store", Store))
assert_type(store, ActorRef[Get | Names | Put])
keyed = root.add_supervisor(DynamicSupervisor("keyed", lambda key: ChildSpec(key, Store)))
assert_type(keyed, DynamicSupervisor[Get | Names | Put])
putter: ActorRef[Put] = store


async def use() -> None:
    assert_type(await store.ask(Get("a")), int)
    assert_type(await store.ask(Names()), list[str])
    await store.tell(Put("a", 1))
    ref = await keyed.get_or_start("a")
    assert_type(await ref.ask(Get("a")), int)
    assert_type(keyed.lookup("a"), ActorRef[Get | Names | Put] | None)
    await store.tell("no message of its")  # expected: arg-type
    await store.ask(Put("a", 1))  # expected: arg-type
    await putter.tell(Get("a"))  # expected: arg-type
    wrong: str = await store.ask(Get("a"))  # expected: arg-type
    wider: ActorRef[Get | Put | str] = store  # expected: assignment
    print(wrong, wider)
"""


def test_mypy_strict_refuses_wrong_replies_and_wrong_messages(tmp_path: Path) -> None:
    mypy_snippet.check(SNIPPET, tmp_path)


def test_an_actor_without_a_method_for_one_of_its_requests_cannot_be_defined() -> None:
    class Get(Request[int]):
        pass

    with pytest.raises(TypeError, match="Forgetful has no method that answers Get"):

        class Forgetful(Actor[Get | str]):
            pass


async def test_a_method_of_a_base_class_and_a_request_of_a_derived_class_find_each_other() -> None:
    class Get(Request[int]):
        pass

    class GetMore(Get):
        pass

    class One(Actor[Get | str]):
        @answers(Get)
        async def get(self, message: Get) -> int:
            return 1

    class Two(One):
        async def get(self, message: Get) -> int:
            return 2

    root = Supervisor("root")
    one, two = root.add(ChildSpec("one", One)), root.add(ChildSpec("two", Two))
    async with root.running():
        assert (await one.ask(Get()), await one.ask(GetMore())) == (1, 1)
        assert (await two.ask(Get()), await two.ask(GetMore())) == (2, 2)


async def test_a_message_that_an_actor_has_no_method_for_is_a_crash() -> None:
    class Deaf(Actor[str]):
        pass

    root = Supervisor("root", max_restarts=1)
    ref = root.add(ChildSpec("deaf", Deaf))
    async with root.running():
        await ref.tell("hello")
        await trio.testing.wait_all_tasks_blocked()
        assert root.status().children[0].last_error == "TypeError: Deaf does not take str"
