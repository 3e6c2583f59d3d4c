"""What people do while the program runs: what they say, and what else comes over it."""

from collections.abc import Callable
from contextlib import suppress
from random import Random

import trio

from rumi.errors import RumiError
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_api_text import detected
from tests.fakes.bot_api_world import Message, Person
from tests.simulation.containers import Daemon
from tests.simulation.ledger import SAID_TO_STRANGERS, Ledger
from tests.simulation.model import BEHAVIOURS, OBEY
from tests.simulation.process import Process
from tests.simulation.sim_chats import BASIC_GROUP, GROUP, STRANGE, Said, SimChat
from tests.simulation.world import World

COMMANDS = (
    *("/stop", "/stop", "/stop", "/reset", "/reset files", "/retry", "/retry", "/status"),
    *("/help", "/start", "/what", "/memory"),
)
PAUSES_S = (0, 0, 0, 0.01, 0.1, 0.7, 1.2, 2, 2, 4, 9, 25)
LONG_PAUSES_S = (60, 110, 200, 400, 4000)

PERSON_ACTIONS = (
    *("say", "say", "say", "say", "say", "command", "command", "burst", "polite", "document", "unsupported"),
    "forward",
    *("answer", "edit", "outside", "leave", "unheard", "wipe", "cut", "full", "vanish"),
)
"""The last three come over the machine: no Telegram, no disk, a box that is gone."""

SESSION_COMMANDS = (
    *("/sessions", "/compact", "/context"),
    *(f"/sessions {number}" for number in (1, 1, 1, 2, 2, 3, 9)),
)
SWITCH_PAUSES_S = (0.1, 2, 3)
SWITCHES = ("/sessions",)

AFTER_A_MOVE = ("/stop", "/retry", "/status", "/help", "/help", "/help")
"""Mostly what is answered while a turn goes on: its answers take the numbers that the old group had."""

GONE_S = (3, 40)
FREE_S = 10.0
"""How long it may take until it is noticed that the disk has room again."""

BEHIND_S = 3.0
"""Within this time, what people hand on in a group may count as meant for the bot like what they said."""

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
        quiet: Callable[[SimChat], bool],
        ledger: Ledger,
    ) -> None:
        self.said: list[Said] = []
        self.process: Process | None = None
        self._world = world
        self._random = world.random
        self._api = api
        self._daemon = daemon
        self._nursery = nursery
        self.quiet = quiet
        self._ledger = ledger
        self._sim_chats: list[SimChat] = []
        self.numbered = 0
        self._sessions = Random(f"sessions {world.seed}")
        self.curious = world.random.choice((0.0, 0.0, 0.1, 0.7))
        """How often they want something from outside."""

    async def live(self, sim_chats: list[SimChat], actions: int) -> None:
        """Do so many things in all, each place for itself."""
        self._sim_chats = sim_chats
        shares = [0] * len(sim_chats)
        for _ in range(actions):
            shares[self._random.randrange(len(sim_chats))] += 1
        async with trio.open_nursery() as nursery:
            for sim_chat, share in zip(sim_chats, shares, strict=True):
                nursery.start_soon(self._live_in, sim_chat, share)

    async def _live_in(self, sim_chat: SimChat, actions: int) -> None:
        random = self._random
        if self._world.stuck not in (None, sim_chat.chat):
            await trio.sleep(random.choice((0, 5, 20, 40)))  # somebody is stuck by now
        moves = sim_chat.telegram_chat.id == BASIC_GROUP
        moves_at = random.randrange(actions + 1) if moves else -1
        for turn_number in range(actions + moves):
            long = random.random() < 0.03
            await trio.sleep(random.choice(LONG_PAUSES_S if long else PAUSES_S))
            if turn_number == moves_at:
                await self._move(sim_chat)
            elif self._world.stuck is not None and random.random() < 0.6:
                await (
                    self._get_stuck(sim_chat) if sim_chat.chat == self._world.stuck else self._go_on(sim_chat)
                )
            elif self._world.theme == "storm" and sim_chat.people and random.random() < 0.4:
                self._storm(sim_chat)
            elif sim_chat.stranger is not None and (not sim_chat.people or random.random() < 0.3):
                self._stranger(sim_chat)
            else:
                if self._world.reopens and sim_chat.people and self._sessions.random() < 0.4:
                    await self._switch(sim_chat)
                await self._do(sim_chat, random.choice(PERSON_ACTIONS))

    async def _switch(self, sim_chat: SimChat) -> None:
        """Begin a session or reopen one, a few times, with something said in each."""
        random = self._sessions
        for _ in range(random.choice((1, 2, 3))):
            for action in (random.choice(("outside", "")), "/new", "", *SWITCHES, ""):
                self.say(sim_chat, action if action.startswith("/") else self.words(sim_chat, action))
                if action in SWITCHES:
                    self.say(sim_chat, random.choice(SESSION_COMMANDS))
                for _ in range(random.choice((1, 10, 10, 10))):  # some do not wait for the answer
                    await trio.sleep(random.choice(SWITCH_PAUSES_S))
                    if self.quiet(sim_chat):
                        break

    async def _do(self, sim_chat: SimChat, action: str) -> None:
        random = self._random
        match action:
            case "say":
                self.say(sim_chat, self.words(sim_chat))
            case "command":
                self.say(sim_chat, random.choice(COMMANDS))
            case "burst":
                for _ in range(random.choice((2, 3, 5))):
                    self.say(sim_chat, random.choice((self.words(sim_chat), *COMMANDS)))
            case "polite":
                await self._polite(sim_chat)
            case "document":
                self._document(sim_chat)
            case "forward":
                self._forward(sim_chat)
            case "unsupported":
                self._unsupported(sim_chat)
            case "answer":
                self._answer(sim_chat)
            case "edit":
                said = [message for message in self.said if message.message.chat.migrated_to is None]
                if said:
                    self._edit(random.choice(said))
            case "outside":
                self.call_from_outside(sim_chat)
            case "leave":
                self._nursery.start_soon(self._leave, sim_chat)
            case "unheard":
                self._unheard(sim_chat)
            case "wipe":
                self._wipe(sim_chat)
            case _:
                self._befall(sim_chat, action)

    # What they say

    def words(self, sim_chat: SimChat, action: str = "") -> str:
        """Something that was not said before, and the wish in it."""
        self.numbered += 1
        if not action:
            curious = self._random.random() < self.curious
            action = "outside" if curious else self._random.choice(BEHAVIOURS)
            if self._world.theme == "late" and self._random.random() < 0.5:
                action = self._random.choice(("stream", "slow", "sleeper"))
        return f"{sim_chat.mark}#{self.numbered} {action}"

    def _said(
        self,
        sim_chat: SimChat,
        message: Message,
        text: str | None,
        what: str,
        *,
        polite: bool = False,
        made: str = "",
    ) -> None:
        behind = text is None and any(
            (one.text is not None or one.behind)
            and one.sim_chat is sim_chat
            and one.message.sender is message.sender
            and message.time - one.message.time <= BEHIND_S
            for one in self.said
        )
        self.said.append(Said(sim_chat, message, text, polite, behind=behind, made=made))
        self._world.note(sim_chat.chat, f"< {what}", lambda: f"(update {message.update_id})")
        self._world.counts["messages"] += 1

    def say(
        self,
        sim_chat: SimChat,
        text: str,
        person: Person | None = None,
        reply_to: Message | None = None,
        *,
        polite: bool = False,
    ) -> Message:
        """Say something that is meant for the bot, whoever does, and perhaps in answer to it."""
        person = person or self._random.choice(sim_chat.people)
        name = f"@{self._api.bot.username}"
        sent = text
        if text == "/what":  # a command of some other bot, unless it is called by name
            sent = f"{text}{name}"
        elif not sim_chat.private and not text.startswith("/") and reply_to is None:
            sent = f"{name} {text}"
        message = self._api.say(person, sent, sim_chat.telegram_chat, topic=sim_chat.topic, reply_to=reply_to)
        self._said(sim_chat, message, text, repr(text), polite=polite)
        return message

    def _edit(self, said: Said) -> None:
        """Change what was said. Nothing of it is heard of strangers, or in a group without the bot's name."""
        if not (said.message.text or said.message.document):
            return  # nobody can edit a sticker or a poll
        text = f"{STRANGE}#edited"
        if said.sim_chat.private and said.text is not None:
            self.numbered += 1
            text = f"{said.sim_chat.mark}#{self.numbered} edited"
            said.edits.append(text)
            self._world.counts["edits"] += 1
            self._world.note(said.sim_chat.chat, f"< edits {said.text!r}: {text!r}")
        self._api.edit(said.message, text)

    async def _polite(self, sim_chat: SimChat) -> None:
        """Say something when nothing runs and everything is answered."""
        with trio.move_on_after(100):
            while not self.quiet(sim_chat):  # noqa: ASYNC110  # a person looks now and then
                await trio.sleep(self._random.choice((0.1, 0.5, 2)))
            self.say(sim_chat, self.words(sim_chat), polite=True)

    def _answer(self, sim_chat: SimChat) -> None:
        """Answer to something that the bot said, without calling it."""
        mine = [message for message in sim_chat.telegram_chat.said if sim_chat.holds(message)]
        if mine:
            words, answered = self.words(sim_chat), self._random.choice(mine)
            # What is answered is kept. Nothing of strangers may be, so nobody answers what they were told.
            to_stranger = answered.text in SAID_TO_STRANGERS
            self.say(sim_chat, words, reply_to=None if to_stranger else answered)

    def correct(self, sim_chat: SimChat, message: Message, text: str) -> None:
        """Change the text of a message."""
        self._world.note(sim_chat.chat, f"< message {message.id} becomes {text!r}")
        for said in self.said:
            if said.message is message:
                said.edits.append(text)
        self._api.edit(message, text)

    def hand_on(self, sim_chat: SimChat, text: str, of: str) -> Message:
        """Hand on what somebody else wrote, in a private chat."""
        origin = self._api.origin_of(of)
        message = self._api.forward(sim_chat.people[0], origin, sim_chat.telegram_chat, text=text)
        self._said(sim_chat, message, "", f"forwarded: {text!r}")
        return message

    def send_file(self, sim_chat: SimChat, name: str) -> Message:
        """Send a file without a caption, in a private chat."""
        content = f"{sim_chat.mark}#file".encode()
        message = self._api.send_document(sim_chat.people[0], name, content, sim_chat.telegram_chat)
        self._said(sim_chat, message, "", f"the file {name}")
        return message

    def send_location(self, sim_chat: SimChat) -> Message:
        """Send a place, in a private chat."""
        message = self._api.send_location(sim_chat.people[0], 1.0, 2.0, sim_chat.telegram_chat)
        self._said(sim_chat, message, "location 1.0, 2.0", "a location")
        return message

    def _document(self, sim_chat: SimChat) -> None:
        """A file, or an album, which is one message."""
        person = self._random.choice(sim_chat.people)
        text = self._random.choice(("", self.words(sim_chat), f"/help {self.words(sim_chat)}"))
        caption = text if sim_chat.private else f"@{self._api.bot.username} {text}".strip()
        album = {"media_group_id": f"album{self.numbered}"} if self._random.random() < 0.2 else {}
        size = self._random.choice((None, None, 30_000_000))
        for number in range(3 if album else 1):
            words = {"caption": caption, "caption_entities": detected(caption)} if number == 0 else {}
            message = self._api.send_document(
                person,
                f"{sim_chat.mark}-{number}.txt",
                f"{sim_chat.mark}#file".encode(),
                sim_chat.telegram_chat,
                size=size,
                topic=sim_chat.topic,
                **words,
                **album,
            )
            if number == 0:
                self._said(sim_chat, message, text, f"a file, {caption!r}")
            else:
                self.said[-1].album.append(message)

    def _forward(self, sim_chat: SimChat) -> None:
        """Hand on what somebody else wrote, and the model obeys it; in a group it calls nobody."""
        self.numbered += 1
        text = f"{sim_chat.mark}#{self.numbered} {OBEY}"
        person = self._random.choice(sim_chat.people)
        origin = self._api.origin_of(self._random.choice((person, "Somebody", sim_chat.telegram_chat)))
        message = self._api.forward(person, origin, sim_chat.telegram_chat, text=text, topic=sim_chat.topic)
        self._said(sim_chat, message, "" if sim_chat.private else None, f"forwarded: {text!r}")

    def _unsupported(self, sim_chat: SimChat) -> None:
        """Something besides words, most of which comes as text; in a group nobody can say for whom it is."""
        person = self._random.choice(sim_chat.people)
        kind = self._random.choice(("location", "sticker", "voice", "poll"))
        text = ""
        match kind:
            case "location":
                text = "location 1.0, 2.0"
                message = self._api.send_location(
                    person, 1.0, 2.0, sim_chat.telegram_chat, topic=sim_chat.topic
                )
            case "sticker":
                text = "sticker 👍"
                message = self._api.send_sticker(person, sim_chat.telegram_chat, topic=sim_chat.topic)
            case "voice":
                message = self._api.send_voice(person, b"OggS", sim_chat.telegram_chat, topic=sim_chat.topic)
            case _:
                text = "poll: Which?\n- yes\n- no"
                message = self._api.send_poll(person, "Which?", sim_chat.telegram_chat, topic=sim_chat.topic)
        self._said(sim_chat, message, text if sim_chat.private else None, f"a {kind}", made=text)

    def _unheard(self, sim_chat: SimChat) -> None:
        """In a group, something that is meant for others."""
        if not sim_chat.private:
            person = self._random.choice(sim_chat.people)
            text = self._random.choice((f"{STRANGE}#gossip", "/stop@another_bot"))
            message = self._api.say(person, text, sim_chat.telegram_chat, topic=sim_chat.topic)
            self._said(sim_chat, message, None, f"for others: {text!r}")

    def _stranger(self, sim_chat: SimChat) -> None:
        assert sim_chat.stranger is not None
        text = self._random.choice((f"{STRANGE}#hello hang", "/stop", "/start"))
        sent = text if sim_chat.private else f"@{self._api.bot.username} {text}"
        message = self._api.say(sim_chat.stranger, sent, sim_chat.telegram_chat, topic=sim_chat.topic)
        self._said(sim_chat, message, None, f"a stranger: {text!r}")

    def _storm(self, sim_chat: SimChat) -> None:
        """Much at once, with things in it over which the chat breaks: it is stopped, and has more queued."""
        for _ in range(self._random.choice((6, 12, 18))):
            action = self._random.choice(("judge", "judge", "judge", "echo"))
            self.say(sim_chat, self.words(sim_chat, action))

    async def _go_on(self, sim_chat: SimChat) -> None:
        """Want a box, and another one, while somebody else's hangs."""
        for _ in range(self._random.choice((1, 3))):
            await trio.sleep(self._random.choice((0, 0.3, 2)))
            self.say(sim_chat, self.words(sim_chat, self._random.choice(("tools", "tools", "file", "echo"))))
            await trio.sleep(self._random.choice((2, 6)))
            self.say(sim_chat, "/reset")

    async def _get_stuck(self, sim_chat: SimChat) -> None:
        """Reach for something that may hang; be gone in the middle of it, and back."""
        random = self._random
        act = random.choice(("stop", "leave", "leave", "leave", "storm", "wait", "wait"))
        actions = ("tools",) if act == "leave" else ("tools", "sleeper", "forker", "file", "hang")
        self.say(sim_chat, self.words(sim_chat, random.choice(actions)))
        await trio.sleep(random.choice((0.5, 2, 5)))
        match act:
            case "stop":
                self.say(sim_chat, "/stop")
            case "storm":
                self._storm(sim_chat)
            case "leave":
                self.say(sim_chat, "/status")
                await self._leave(sim_chat)
                self.say(sim_chat, self.words(sim_chat))
                await trio.sleep(random.choice((0.1, 1)))
                for other in self._sim_chats:  # whose chats have left memory
                    if other is not sim_chat:
                        self.say(other, self.words(other, "echo"))
            case _:
                pass

    # What else they do

    def call_from_outside(self, sim_chat: SimChat) -> None:
        """Have somebody give a chat a command who is not in it."""
        process = self.process
        if process is not None and process.root.state == "running" and not process.life.dead:
            process.callers.start_soon(self._outside, sim_chat, process)

    async def _outside(self, sim_chat: SimChat, process: Process) -> None:
        """`rumi stop` or `rumi reset`, by somebody who may not wait for the answer."""
        command = self._random.choice(("/stop", "/stop", "/reset"))
        self._world.note(sim_chat.chat, f"from outside: {command}")
        sim_chat.meddled = True
        with trio.move_on_after(self._random.choice((0.001, 0.05, 70))), suppress(RumiError):
            await process.inbox.command(sim_chat.chat, command)

    async def _leave(self, sim_chat: SimChat) -> None:
        """Block the bot, or throw it out, and come back or let it in again."""
        if sim_chat.telegram_chat.kicked or (
            sim_chat.telegram_chat.person is not None and sim_chat.telegram_chat.person.blocked
        ):
            return
        self._world.note(sim_chat.chat, "nobody can be reached")
        self._world.counts["gone"] += 1
        sim_chat.gone.append((self._world.now(), float("inf")))
        self._set_gone(sim_chat, gone=True)
        await trio.sleep(self._random.choice(GONE_S))
        self._set_gone(sim_chat, gone=False)
        began, _ = sim_chat.gone.pop()
        sim_chat.gone.append((began, self._world.now() + LATE_S))
        self._world.note(sim_chat.chat, "can be reached again")

    def _set_gone(self, sim_chat: SimChat, *, gone: bool) -> None:
        if sim_chat.telegram_chat.person is None:
            sim_chat.telegram_chat.kicked = gone
        else:
            sim_chat.telegram_chat.person.blocked = gone

    def _wipe(self, sim_chat: SimChat) -> None:
        """Take away what the bot said last."""
        mine = [message for message in sim_chat.telegram_chat.said if sim_chat.holds(message)]
        if mine:
            self._world.note(sim_chat.chat, f"message {mine[-1].id} is taken away")
            mine[-1].deleted = True
            sim_chat.wiped.append(mine[-1])

    async def _move(self, sim_chat: SimChat) -> None:
        """The group becomes a supergroup, while something runs or not, and a kill may follow."""
        random = self._random
        if random.random() < 0.7:
            actions = ("slow", "stream", "sleeper", "essay", "file", "hang", "outside", "outside")
            self.say(sim_chat, self.words(sim_chat, random.choice(actions)))
            await trio.sleep(random.choice((0, 0.01, 0.1, 0.7, 2, 5)))
        if random.random() < 0.3:
            self.say(sim_chat, random.choice((self.words(sim_chat), "/stop", "/status")))
        while sim_chat.telegram_chat.kicked:  # noqa: ASYNC110  # nobody tells the bot of anything
            await trio.sleep(1)
        self._ledger.moved(sim_chat)
        sim_chat.telegram_chats.append(self._api.migrate(sim_chat.telegram_chat, GROUP))
        self._world.note(sim_chat.chat, f"has the number {GROUP} from now on")
        self._world.counts["moved"] += 1
        if self._world.dice("kill", 0.3):
            self._nursery.start_soon(self._kill, random.choice((0, 0.01, 0.05, 0.3, 2)))
        for _ in range(random.choice((0, 1, 3, 7))):
            await trio.sleep(random.choice((0, 0, 0.01, 0.3, 2)))
            self.say(sim_chat, random.choice((self.words(sim_chat), *AFTER_A_MOVE)))

    async def _kill(self, after_s: float) -> None:
        await trio.sleep(after_s)
        if self.process is not None:
            self.process.life.die("a group has moved")

    # What comes over the machine

    def _befall(self, sim_chat: SimChat, what: str) -> None:
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
            self._daemon.lose(sim_chat.chat)
