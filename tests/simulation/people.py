"""What people do while the program runs: what they say, and what else comes over it."""

from collections.abc import Callable
from contextlib import suppress

import trio

from rumi.errors import RumiError
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_api_text import detected
from tests.fakes.bot_api_world import Message, Person
from tests.simulation.containers import Daemon
from tests.simulation.ledger import Ledger
from tests.simulation.model import BEHAVIOURS, OBEY
from tests.simulation.places import BASIC_GROUP, GROUP, STRANGE, Place, Said
from tests.simulation.process import Process
from tests.simulation.world import World

COMMANDS = (
    *("/stop", "/stop", "/stop", "/reset", "/reset files", "/retry", "/retry", "/status"),
    *("/help", "/start", "/what", "/memory"),
)
PAUSES_S = (0, 0, 0, 0.01, 0.1, 0.7, 1.2, 2, 2, 4, 9, 25)
LONG_PAUSES_S = (60, 110, 200, 400, 4000)

DEEDS = (
    *("say", "say", "say", "say", "say", "command", "command", "burst", "polite", "document", "unsupported"),
    "forward",
    *("answer", "edit", "outside", "leave", "unheard", "wipe", "cut", "full", "vanish"),
)
"""The last three come over the machine: no Telegram, no disk, a box that is gone."""

AFTER_A_MOVE = ("/stop", "/retry", "/status", "/help", "/help", "/help")
"""Mostly what is answered while a turn goes on: its answers take the numbers that the old group had."""

GONE_S = (3, 40)
FREE_S = 10.0
"""How long it may take until it is noticed that the disk has room again."""

LATE_S = 120.0
"""How long after somebody's return an answer of Telegram's may still say that they are gone."""


class People:
    """Everybody in a history. `said` is all that was sent, `process` the program as it runs now, if it does.

    `quiet` says whether everything that was said in a place is answered.
    """

    def __init__(
        self,
        world: World,
        api: BotApi,
        daemon: Daemon,
        nursery: trio.Nursery,
        quiet: Callable[[Place], bool],
        ledger: Ledger,
    ) -> None:
        self.said: list[Said] = []
        self.process: Process | None = None
        self._world = world
        self._random = world.random
        self._api = api
        self._daemon = daemon
        self._nursery = nursery
        self._quiet = quiet
        self._ledger = ledger
        self._places: list[Place] = []
        self._numbered = 0
        self.curious = world.random.choice((0.0, 0.0, 0.1, 0.7))
        """How often they want something from outside."""

    async def live(self, places: list[Place], deeds: int) -> None:
        """Do so many things in all, each place for itself."""
        self._places = places
        shares = [0] * len(places)
        for _ in range(deeds):
            shares[self._random.randrange(len(places))] += 1
        async with trio.open_nursery() as nursery:
            for place, share in zip(places, shares, strict=True):
                nursery.start_soon(self._live_in, place, share)

    async def _live_in(self, place: Place, deeds: int) -> None:
        random = self._random
        if self._world.stuck not in (None, place.chat):
            await trio.sleep(random.choice((0, 5, 20, 40)))  # somebody is stuck by now
        moves = place.room.id == BASIC_GROUP
        moves_at = random.randrange(deeds + 1) if moves else -1
        for deed in range(deeds + moves):
            long = random.random() < 0.03
            await trio.sleep(random.choice(LONG_PAUSES_S if long else PAUSES_S))
            if deed == moves_at:
                await self._move(place)
            elif self._world.stuck is not None and random.random() < 0.6:
                await (self._get_stuck(place) if place.chat == self._world.stuck else self._go_on(place))
            elif self._world.theme == "storm" and place.people and random.random() < 0.4:
                self._storm(place)
            elif place.stranger is not None and (not place.people or random.random() < 0.3):
                self._stranger(place)
            else:
                await self._do(place, random.choice(DEEDS))

    async def _do(self, place: Place, deed: str) -> None:
        random = self._random
        match deed:
            case "say":
                self.say(place, self.words(place))
            case "command":
                self.say(place, random.choice(COMMANDS))
            case "burst":
                for _ in range(random.choice((2, 3, 5))):
                    self.say(place, random.choice((self.words(place), *COMMANDS)))
            case "polite":
                await self._polite(place)
            case "document":
                self._document(place)
            case "forward":
                self._forward(place)
            case "unsupported":
                self._unsupported(place)
            case "answer":
                self._answer(place)
            case "edit":
                said = [message for message in self.said if message.message.chat.migrated_to is None]
                if said:
                    self._api.edit(random.choice(said).message, f"{STRANGE}#edited")
            case "outside":
                self.call_from_outside(place)
            case "leave":
                self._nursery.start_soon(self._leave, place)
            case "unheard":
                self._unheard(place)
            case "wipe":
                self._wipe(place)
            case _:
                self._befall(place, deed)

    # What they say

    def words(self, place: Place, wish: str = "") -> str:
        """Something that was not said before, and the wish in it."""
        self._numbered += 1
        if not wish:
            curious = self._random.random() < self.curious
            wish = "outside" if curious else self._random.choice(BEHAVIOURS)
            if self._world.theme == "late" and self._random.random() < 0.5:
                wish = self._random.choice(("stream", "slow", "sleeper"))
        return f"{place.mark}#{self._numbered} {wish}"

    def _said(
        self, place: Place, message: Message, text: str | None, what: str, *, polite: bool = False
    ) -> None:
        self.said.append(Said(place, message, text, polite))
        self._world.note(place.chat, f"< {what}", lambda: f"(update {message.update_id})")
        self._world.counts["messages"] += 1

    def say(
        self,
        place: Place,
        text: str,
        person: Person | None = None,
        reply_to: Message | None = None,
        *,
        polite: bool = False,
    ) -> Message:
        """Say something that is meant for the bot, whoever does, and perhaps in answer to it."""
        person = person or self._random.choice(place.people)
        name = f"@{self._api.bot.username}"
        sent = text
        if text == "/what":  # a command of some other bot, unless it is called by name
            sent = f"{text}{name}"
        elif not place.private and not text.startswith("/") and reply_to is None:
            sent = f"{name} {text}"
        message = self._api.say(person, sent, place.room, topic=place.topic, reply_to=reply_to)
        self._said(place, message, text, repr(text), polite=polite)
        return message

    async def _polite(self, place: Place) -> None:
        """Say something when nothing runs and everything is answered."""
        with trio.move_on_after(100):
            while not self._quiet(place):  # noqa: ASYNC110  # a person looks now and then
                await trio.sleep(self._random.choice((0.1, 0.5, 2)))
            self.say(place, self.words(place), polite=True)

    def _answer(self, place: Place) -> None:
        """Answer to something that the bot said, without calling it."""
        mine = [message for message in place.room.said if place.holds(message)]
        if mine:
            self.say(place, self.words(place), reply_to=self._random.choice(mine))

    def _document(self, place: Place) -> None:
        """A file, or an album, which is one message."""
        person = self._random.choice(place.people)
        text = self._random.choice(("", self.words(place), f"/help {self.words(place)}"))
        caption = text if place.private else f"@{self._api.bot.username} {text}".strip()
        album = {"media_group_id": f"album{self._numbered}"} if self._random.random() < 0.2 else {}
        size = self._random.choice((None, None, 30_000_000))
        for number in range(3 if album else 1):
            words = {"caption": caption, "caption_entities": detected(caption)} if number == 0 else {}
            message = self._api.send_document(
                person,
                f"{place.mark}-{number}.txt",
                f"{place.mark}#file".encode(),
                place.room,
                size=size,
                topic=place.topic,
                **words,
                **album,
            )
            if number == 0:
                self._said(place, message, text, f"a file, {caption!r}")
            else:
                self.said[-1].album.append(message)

    def _forward(self, place: Place) -> None:
        """Hand on what somebody else wrote, and the model obeys it; in a group it calls nobody."""
        self._numbered += 1
        text = f"{place.mark}#{self._numbered} {OBEY}"
        person = self._random.choice(place.people)
        origin = self._api.origin_of(self._random.choice((person, "Somebody", place.room)))
        message = self._api.forward(person, origin, place.room, text=text, topic=place.topic)
        self._said(place, message, "" if place.private else None, f"forwarded: {text!r}")

    def _unsupported(self, place: Place) -> None:
        """Something besides words; in a group nobody can say for whom it is."""
        person = self._random.choice(place.people)
        kind = self._random.choice(("location", "sticker", "voice", "poll"))
        match kind:
            case "location":
                message = self._api.send_location(person, 1.0, 2.0, place.room, topic=place.topic)
            case "sticker":
                message = self._api.send_sticker(person, place.room, topic=place.topic)
            case "voice":
                message = self._api.send_voice(person, b"OggS", place.room, topic=place.topic)
            case _:
                message = self._api.send_poll(person, "Which?", place.room, topic=place.topic)
        self._said(place, message, "" if place.private else None, f"a {kind}")

    def _unheard(self, place: Place) -> None:
        """In a group, something that is meant for others."""
        if not place.private:
            person = self._random.choice(place.people)
            text = self._random.choice((f"{STRANGE}#gossip", "/stop@another_bot"))
            message = self._api.say(person, text, place.room, topic=place.topic)
            self._said(place, message, None, f"for others: {text!r}")

    def _stranger(self, place: Place) -> None:
        assert place.stranger is not None
        text = self._random.choice((f"{STRANGE}#hello hang", "/stop", "/start"))
        sent = text if place.private else f"@{self._api.bot.username} {text}"
        message = self._api.say(place.stranger, sent, place.room, topic=place.topic)
        self._said(place, message, None, f"a stranger: {text!r}")

    def _storm(self, place: Place) -> None:
        """Much at once, with things in it over which the chat breaks: it is stopped, and has more queued."""
        for _ in range(self._random.choice((6, 12, 18))):
            wish = self._random.choice(("judge", "judge", "judge", "echo"))
            self.say(place, self.words(place, wish))

    async def _go_on(self, place: Place) -> None:
        """Want a box, and another one, while somebody else's hangs."""
        for _ in range(self._random.choice((1, 3))):
            await trio.sleep(self._random.choice((0, 0.3, 2)))
            self.say(place, self.words(place, self._random.choice(("tools", "tools", "file", "echo"))))
            await trio.sleep(self._random.choice((2, 6)))
            self.say(place, "/reset")

    async def _get_stuck(self, place: Place) -> None:
        """Reach for something that may hang; be gone in the middle of it, and back."""
        random = self._random
        act = random.choice(("stop", "leave", "leave", "leave", "storm", "wait", "wait"))
        wishes = ("tools",) if act == "leave" else ("tools", "sleeper", "forker", "file", "hang")
        self.say(place, self.words(place, random.choice(wishes)))
        await trio.sleep(random.choice((0.5, 2, 5)))
        match act:
            case "stop":
                self.say(place, "/stop")
            case "storm":
                self._storm(place)
            case "leave":
                self.say(place, "/status")
                await self._leave(place)
                self.say(place, self.words(place))
                await trio.sleep(random.choice((0.1, 1)))
                for other in self._places:  # whose chats have left memory
                    if other is not place:
                        self.say(other, self.words(other, "echo"))
            case _:
                pass

    # What else they do

    def call_from_outside(self, place: Place) -> None:
        """Have somebody give a chat a command who is not in it."""
        process = self.process
        if process is not None and process.root.state == "running" and not process.life.dead:
            process.callers.start_soon(self._outside, place, process)

    async def _outside(self, place: Place, process: Process) -> None:
        """`rumi stop` or `rumi reset`, by somebody who may not wait for the answer."""
        command = self._random.choice(("/stop", "/stop", "/reset"))
        self._world.note(place.chat, f"from outside: {command}")
        place.meddled = True
        with trio.move_on_after(self._random.choice((0.001, 0.05, 70))), suppress(RumiError):
            await process.inbox.command(place.chat, command)

    async def _leave(self, place: Place) -> None:
        """Block the bot, or throw it out, and come back or let it in again."""
        if place.room.kicked or (place.room.person is not None and place.room.person.blocked):
            return
        self._world.note(place.chat, "nobody can be reached")
        self._world.counts["gone"] += 1
        place.gone.append((self._world.now(), float("inf")))
        self._set_gone(place, gone=True)
        await trio.sleep(self._random.choice(GONE_S))
        self._set_gone(place, gone=False)
        began, _ = place.gone.pop()
        place.gone.append((began, self._world.now() + LATE_S))
        self._world.note(place.chat, "can be reached again")

    def _set_gone(self, place: Place, *, gone: bool) -> None:
        if place.room.person is None:
            place.room.kicked = gone
        else:
            place.room.person.blocked = gone

    def _wipe(self, place: Place) -> None:
        """Take away what the bot said last."""
        mine = [message for message in place.room.said if place.holds(message)]
        if mine:
            self._world.note(place.chat, f"message {mine[-1].id} is taken away")
            mine[-1].deleted = True
            place.wiped.append(mine[-1])

    async def _move(self, place: Place) -> None:
        """The group becomes a supergroup, while something runs or not, and a kill may follow."""
        random = self._random
        if random.random() < 0.7:
            wishes = ("slow", "stream", "sleeper", "essay", "file", "hang", "outside", "outside")
            self.say(place, self.words(place, random.choice(wishes)))
            await trio.sleep(random.choice((0, 0.01, 0.1, 0.7, 2, 5)))
        if random.random() < 0.3:
            self.say(place, random.choice((self.words(place), "/stop", "/status")))
        while place.room.kicked:  # noqa: ASYNC110  # nobody tells the bot of anything
            await trio.sleep(1)
        self._ledger.moved(place)
        place.rooms.append(self._api.migrate(place.room, GROUP))
        self._world.note(place.chat, f"has the number {GROUP} from now on")
        self._world.counts["moved"] += 1
        if self._world.dice("kill", 0.3):
            self._nursery.start_soon(self._kill, random.choice((0, 0.01, 0.05, 0.3, 2)))
        for _ in range(random.choice((0, 1, 3, 7))):
            await trio.sleep(random.choice((0, 0, 0.01, 0.3, 2)))
            self.say(place, random.choice((self.words(place), *AFTER_A_MOVE)))

    async def _kill(self, after_s: float) -> None:
        await trio.sleep(after_s)
        if self.process is not None:
            self.process.life.die("a group has moved")

    # What comes over the machine

    def _befall(self, place: Place, what: str) -> None:
        world, random = self._world, self._random
        if what == "cut" and world.dice("telegram", 0.3):
            seconds = random.choice((2, 15, 90))
            world.cut_until = trio.current_time() + seconds
            world.cut_silently = random.random() < 0.5
            world.note("telegram", f"cannot be reached for {seconds} s, silently: {world.cut_silently}")
        elif what == "full" and world.dice("disk", 0.3):
            seconds = random.choice((0.02, 0.3, 3, 30))
            world.full_until = trio.current_time() + seconds
            world.waits.until(world.full_until + FREE_S)
            world.note("disk", f"is full for {seconds} s")
        elif what == "vanish" and world.dice("sandbox", 0.3):
            self._daemon.lose(place.chat)
