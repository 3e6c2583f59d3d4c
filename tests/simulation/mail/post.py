"""A mail server of the simulation: one mailbox, and a line to everybody, with faults drawn by the world."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from email import message_from_bytes, policy
from random import Random

import trio

from rumi.services.mail.errors import MailError
from rumi.services.mail.messages import FoundMail, MailQuery, MailsFound, SentMail
from rumi.services.mail.writing import Outgoing
from rumi.store.journal.mail_positions import MailPosition
from tests.simulation.ports import Life
from tests.simulation.world import World


@dataclass(frozen=True)
class Stored:
    """A mail in the mailbox."""

    uid: int
    raw: bytes
    arrived: float


@dataclass(frozen=True)
class Delivered:
    """A mail that the server took from a process, and gave to its recipient."""

    at: float
    to: str
    message_id: str
    answers: str
    text: str


class Post:
    """The server. `delivered` is all that it took; `sent` are the ids in the folder of sent mails."""

    def __init__(self, world: World, random: Random) -> None:
        self.world = world
        self.random = random
        self.validity = 1
        self.inbox: list[Stored] = []
        self.delivered: list[Delivered] = []
        self.sent: set[str] = set()
        self._next_uid = 1

    def put(self, raw: bytes) -> None:
        """A mail arrives."""
        self.inbox.append(Stored(self._next_uid, raw, self.world.now()))
        self._next_uid += 1

    def renumber(self) -> None:
        """Number all mails anew, in the same order, as a server does that lost its index."""
        self.world.note("post", "numbers its mails anew")
        self.world.counts["renumbered"] += 1
        self.validity += 1
        self.inbox = [Stored(uid, mail.raw, mail.arrived) for uid, mail in enumerate(self.inbox, 1)]
        self._next_uid = len(self.inbox) + 1

    def fails(self, what: str, chance: float) -> bool:
        """Whether something goes wrong now."""
        if self.world.calm or self.random.random() >= chance:
            return False
        self.world.counts[what] += 1
        self.world.note("post", what)
        return True

    def take(self, mail: Outgoing) -> None:
        """Take a mail, and deliver it."""
        read = message_from_bytes(mail.raw, policy=policy.default)
        body = read.get_body(("plain",))  # type: ignore[attr-defined]
        text = str(body.get_content())
        self.world.note("post", f"takes {mail.message_id[:14]}", lambda: repr(text[:80]))
        self.delivered.append(
            Delivered(
                trio.current_time(), mail.recipients[0], mail.message_id, str(read["In-Reply-To"] or ""), text
            )
        )


class SimBox:
    """A process's connections to the server. Once the process is dead, nothing gets through any more."""

    def __init__(self, post: Post, life: Life) -> None:
        self._post = post
        self._life = life

    async def _line(self, what: str, chance: float = 0.06) -> None:
        post = self._post
        await trio.sleep(0.01 if post.world.calm else post.random.choice((0.01, 0.1, 0.1, 3)))
        if self._life.dead:
            await trio.sleep_forever()
        if post.fails(f"no {what}", chance):
            raise MailError("unreachable", "The mail server cannot be reached.")

    def _found(self, mail: Stored) -> FoundMail:
        read = message_from_bytes(mail.raw, policy=policy.default)
        return FoundMail(
            *("INBOX", self._post.validity, mail.uid),
            *(str(read["From"]), str(read["To"]), str(read["Subject"]), str(read["Date"])),
            *(mail.arrived, len(mail.raw), True, False, str(read["Message-ID"])),
        )

    async def new_since(
        self, folder: str, position: MailPosition | None, most: int
    ) -> tuple[MailPosition, tuple[FoundMail, ...]]:
        await self._line("list")
        post = self._post
        end = max((mail.uid for mail in post.inbox), default=0)
        if position is None or position.validity != post.validity:
            return MailPosition(post.validity, end), ()
        new = [mail for mail in post.inbox if mail.uid > position.upto][:most]
        upto = new[-1].uid if new else end
        return MailPosition(post.validity, max(upto, position.upto)), tuple(map(self._found, new))

    async def search(self, query: MailQuery) -> MailsFound:
        await self._line("search")
        return MailsFound(tuple(map(self._found, reversed(self._post.inbox))))

    async def fetch(self, folder: str, uid: int, validity: int | None = None) -> bytes:
        await self._line("mail")
        mail = next((mail for mail in self._post.inbox if mail.uid == uid), None)
        if mail is None or validity != self._post.validity:
            raise MailError("gone", "This mail is not there any more.")
        return mail.raw

    async def send(
        self,
        mail: Outgoing,
        *,
        hand_over: Callable[[], Awaitable[None]],
        settle: Callable[[SentMail | MailError], Awaitable[None]] | None = None,
    ) -> SentMail:
        post, life = self._post, self._life
        await self._line("connection")
        if post.fails("refused for now", 0.05):
            raise MailError("refused", "It refuses this.", words="450 4.2.0 try again later")
        life.moment("begun")
        await hand_over()
        life.moment("handed over")
        with trio.CancelScope(shield=True):
            ended = await self._end(mail)
            if settle is not None:
                await settle(ended)
        life.moment("settled")
        if isinstance(ended, MailError):
            raise ended
        return ended

    async def _end(self, mail: Outgoing) -> SentMail | MailError:
        post, life = self._post, self._life
        if life.dead:
            await trio.sleep_forever()
        unknown = MailError("unknown", "The connection broke, so nobody knows if it was sent.")
        if post.fails("lost before the final dot", 0.05):
            return unknown
        post.take(mail)
        life.moment("taken")
        await trio.sleep(post.random.choice((0.01, 0.3)))
        if life.dead:
            await trio.sleep_forever()
        return unknown if post.fails("lost after the final dot", 0.05) else SentMail("250 ok")

    async def append(self, folder: str, raw: bytes, flags: Sequence[str] = ()) -> None:
        await self._line("copy")
        self._post.sent.add(str(message_from_bytes(raw)["Message-ID"]))

    async def has_sent(self, message_id: str) -> bool | None:
        await self._line("look")
        return message_id in self._post.sent
