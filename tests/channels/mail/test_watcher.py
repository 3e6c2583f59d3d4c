"""The watcher of a mailbox: order, positions, mails that wait, and who of several workers watches."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import trio

from actors import ChildSpec, Supervisor
from rumi.channels.mail.watcher import MailWatcher, StopWatching, WatchedMailbox
from rumi.services.mail.messages import FoundMail
from rumi.store.journal.mail_positions import mail_position
from tests.channels.mail.letters import letter
from tests.chats.house import house
from tests.mail_servers import MailServers

WITHIN_S = 20


@dataclass
class Taker:
    """Takes mails; those whose subject is in `waits` cannot be decided now."""

    taken: list[str] = field(default_factory=list)
    offered: list[list[str]] = field(default_factory=list)
    waits: set[str] = field(default_factory=set)

    async def take(self, mails: Sequence[FoundMail]) -> Sequence[FoundMail]:
        await trio.lowlevel.checkpoint()
        self.offered.append([mail.subject for mail in mails])
        self.taken += [mail.subject for mail in mails if mail.subject not in self.waits]
        return [mail for mail in mails if mail.subject in self.waits]

    async def until(self, *taken: str) -> None:
        with trio.fail_after(WITHIN_S):
            while self.taken != list(taken):  # noqa: ASYNC110  # a server tells nobody
                await trio.sleep(0.01)


async def test_a_mail_that_waits_delays_no_other_and_is_not_lost(
    tmp_path: Path, servers: MailServers
) -> None:
    taker, serves = Taker(waits={"b"}), [True]
    watched = WatchedMailbox("x", "x", servers.mailbox("ana"), {"INBOX": taker.take}, 0.02)

    def put(*subjects: str) -> None:
        for subject in subjects:
            servers.put("ana", letter(subject=subject))

    async with house(tmp_path) as made:
        ask = made.services.journal.ask
        for life in range(3):
            beside, serves[0] = Supervisor("beside"), life < 2
            watcher = beside.add(
                ChildSpec("watcher", lambda: MailWatcher(watched, ask, serves=lambda: serves[0]))
            )
            async with beside.running():
                if life == 0:
                    with trio.fail_after(WITHIN_S):
                        while not watched.memory.looked:  # noqa: ASYNC110
                            await trio.sleep(0.01)
                    first = await ask(mail_position("x", "INBOX"))
                    assert first is not None
                    put("a", "b", "c")
                    await taker.until("a", "c")
                    put("d")
                    await taker.until("a", "c", "d")
                    # A process looks once at what it has decided; the stored position stays below what waits.
                    assert sum("a" in offered for offered in taker.offered) == 1
                    position = await ask(mail_position("x", "INBOX"))
                    assert position is not None
                    assert position.upto == first.upto + 1
                elif life == 1:
                    taker.waits.clear()
                    taker.taken.clear()
                    await taker.until("b", "c", "d")  # the next process finds it, and what came later
                else:
                    put("e")
                    await trio.sleep(0.1)
                    assert taker.taken == ["b", "c", "d"]
                    serves[0] = True
                    await taker.until("b", "c", "d", "e")
                    await watcher.ask(StopWatching())
                    assert watched.memory.ended
