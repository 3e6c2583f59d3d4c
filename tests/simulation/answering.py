"""What people do when they are asked: each question has somebody who sees to it, well or badly."""

from collections import defaultdict
from typing import TYPE_CHECKING

import trio

from rumi.channels.telegram.callback import answer_in
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_api_world import Message, Person, Query
from tests.simulation.asking import CONFIRM_S, Asked, Asking, shows
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.people import People

REACTIONS: tuple[tuple[str, ...], ...] = (
    *(("yes",), ("yes",), ("yes", "yes"), ("yes", "no"), ("no",), ("no", "yes"), ("no", "no", "no")),
    *((), ("late",), ("stale",), ("stale", "stale", "yes"), ("stale", "no"), ("yes", "stale")),
    *(("other",), ("other", "yes"), ("other", "no"), ("other", "typed", "other")),
    *(("typed",), ("typed",), ("typed", "typed"), ("typed no",), ("early",), ("early", "early", "yes")),
    *(("typed other",), ("typed other", "typed"), ("yes", "typed"), ("typed", "yes")),
    *(("stop",), ("stop", "yes"), ("yes", "stop"), ("reset",), ("reset", "yes"), ("talk",), ("talk", "yes")),
    *(("outside", "yes"), ("yes", "outside")),
)

PRESSES = frozenset({"yes", "no", "late", "other", "stale"})

THINK_S = (0, 0, 0.01, 0.3, 1, 4, 20)

LOOKS = 40
"""How often somebody looks whether there is something to press."""

YES, NO = ("yes", "sí", "Sí", "ok", "dale"), ("no", "No", "n")


class Answering:
    """Everybody who is asked something in a history."""

    def __init__(self, world: World, api: BotApi, asking: Asking, people: "People") -> None:
        self._world = world
        self._random = world.random
        self._api = api
        self._asking = asking
        self._people = people
        self._seen: defaultdict[str, list[tuple[Message, dict[bool, str]]]] = defaultdict(list)
        """The questions of each place that somebody saw, and what their buttons carry."""
        self._worded = 0

    async def react(self, asked: Asked) -> None:
        """See to a question."""
        acts = self._random.choice(REACTIONS)
        if self._stale(asked) and self._random.random() < 0.5:
            acts = ("stale", *acts)
        self._world.note(
            asked.sim_chat.chat, f"{asked.owner.first_name} is asked {asked.id} and will: {acts}"
        )
        if acts[:1] != ("early",):
            await self._look(asked)
        for act in acts:
            await trio.sleep(self._random.choice(THINK_S) + CONFIRM_S * (act == "late"))
            if not (self._world.calm and asked.over) or act in PRESSES:  # it is to become quiet
                self._act(asked, act)
        if asked.verdict is None and asked.life.dead and not self._world.calm:
            self._people.say(asked.sim_chat, "/retry", asked.owner)  # it was restarted, they are told

    async def _look(self, asked: Asked) -> None:
        """Wait until there is something to press, for a while."""
        pause = 0.3
        for _ in range(LOOKS):
            if self._found(asked) or asked.over:
                return
            await trio.sleep(pause)
            pause = min(pause * 1.3, 5.0)

    def _found(self, asked: Asked) -> list[tuple[Message, dict[bool, str]]]:
        """Where the question can be seen."""
        seen = self._seen[asked.sim_chat.chat]
        known = {message for message, _ in seen}
        for message in reversed(asked.sim_chat.telegram_chat.messages):
            if message.time < asked.at:
                break
            if message not in known and message.buttons and shows(message, asked.thing):
                seen.append((message, carried_by(message)))
        return [one for one in seen if shows(one[0], asked.thing) and self._can_be_pressed(one[0])]

    def _can_be_pressed(self, message: Message) -> bool:
        return not message.deleted and message.chat.migrated_to is None

    def _stale(self, asked: Asked) -> list[tuple[Message, dict[bool, str]]]:
        """Other questions of the place: those that still have buttons, or old versions of the rest."""
        others = [one for one in self._seen[asked.sim_chat.chat] if not shows(one[0], asked.thing)]
        others = [one for one in others if one[0].chat is asked.sim_chat.telegram_chat]
        return [one for one in others if one[0].buttons] or others

    def _act(self, asked: Asked, act: str) -> None:
        random, people, sim_chat, owner = self._random, self._people, asked.sim_chat, asked.owner
        others = [person for person in (*sim_chat.people, sim_chat.stranger) if person not in (None, owner)]
        match act:
            case "yes" | "no" | "late":
                self._press(asked, owner, yes=act != "no")
            case "other" if others:
                self._press(asked, random.choice(others), yes=True)
            case "stale":
                if stale := self._stale(asked):
                    self._world.counts["stale presses"] += 1
                    self._send(owner, *random.choice(stale[-3:]), yes=random.random() < 0.8)
            case "typed" | "typed no" | "early":
                self._type(asked, owner, yes=act != "typed no")
            case "typed other" if len(sim_chat.people) > 1:
                self._type(asked, next(person for person in sim_chat.people if person is not owner), yes=True)
            case "stop" | "reset":
                people.say(sim_chat, f"/{act}")
            case "talk":
                people.say(sim_chat, people.words(sim_chat))
            case "outside":
                people.call_from_outside(sim_chat)
            case _:
                pass

    def _press(self, asked: Asked, person: Person | None, *, yes: bool) -> None:
        if person is not None and (found := self._found(asked)):
            self._send(person, *self._random.choice(found), yes=yes)

    def _send(self, person: Person, message: Message, carried: dict[bool, str], *, yes: bool) -> Query | None:
        """Press a button, unless Telegram shows none to them."""
        if message.deleted or message.chat.kicked or person.blocked:
            return None
        query = self._api.press(person, message, carried[yes])
        self._world.note(
            f"tg{message.chat.id}", f"{person.first_name} presses {carried[yes]}", lambda: message
        )
        self._asking.pressed(query, yes)
        return query

    def _type(self, asked: Asked, person: Person, *, yes: bool) -> None:
        """Write the answer, each time another way: signs around it do not matter."""
        self._worded += 1
        word = self._random.choice(YES if yes else NO)
        text = word + "".join("!" if bit == "1" else "." for bit in f"{self._worded:b}")
        found = self._found(asked)
        to = self._random.choice(found)[0] if found and self._random.random() < 0.7 else None
        self._asking.typed(asked.sim_chat, self._people.say(asked.sim_chat, text, person, to), yes)

    # In the end

    def standing(self) -> list[Message]:
        """The messages that have the buttons of a question; a reply may have one that goes on."""
        rooms = {
            asked.sim_chat.telegram_chat.id: asked.sim_chat.telegram_chat
            for asked in self._asking.questions.values()
        }
        return [message for room in rooms.values() for message in room.said if carried_by(message)]

    def press_what_stands(self) -> list[Query]:
        """Say yes to whatever is still there to be pressed, though nothing is asked any more."""
        queries: list[Query] = []
        for message in self.standing():
            asked = next(
                question for question in self._asking.questions.values() if shows(message, question.thing)
            )
            query = self._send(asked.owner, message, carried_by(message), yes=True)
            queries += [] if query is None else [query]
        return queries


def carried_by(message: Message) -> dict[bool, str]:
    """What the two buttons carry."""
    data = [str(button["callback_data"]) for button in message.buttons]
    return {answer[1]: text for text in data if (answer := answer_in(text)) is not None}
