"""Mails as events of triggers, from a real Dovecot."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from actors import ChildSpec, Supervisor
from rumi.channels.mail.channel import account_of
from rumi.channels.mail.watcher import MailWatcher, WatchedMailbox
from rumi.channels.triggers.mail_rules import matches, watched_by_rules
from rumi.channels.triggers.triggers import Triggers, triggers_of
from rumi.errors import ConfigError
from rumi.platform.config.cascade import load_settings
from rumi.platform.config.schema import TriggerSection
from rumi.platform.threads import Threads
from rumi.services.mail.messages import FoundMail
from tests.channels.mail.letters import letter
from tests.channels.triggers.test_triggers import HIDDEN, Seen, gullible
from tests.chats.house import Answer, House, echo, house
from tests.chats.test_confirmations import Visit
from tests.mail_servers import MailServers

WITHIN_S = 20
CONFIG = """
[mail.work]
address = "ana@example.test"
imap = "imap.example.test:993"
[triggers.bills]
mail = "work"
mail_from = "shop.test"
mail_subject = "invoice*2026"
prompt = "look at what came"
most_per_hour = 3
"""


async def plain(html: str) -> str:
    await trio.lowlevel.checkpoint()
    return html


@dataclass
class Ruled:
    house: House
    triggers: Triggers
    watched: WatchedMailbox
    servers: MailServers

    def put(self, *subjects: str, sender: str = "bill@shop.test", **more: object) -> None:
        for subject in subjects:
            self.servers.put("ana", letter("Pay 5.", sender=sender, subject=subject, **more))  # type: ignore[arg-type]

    async def until(self, what: Callable[[], object]) -> None:
        with trio.fail_after(WITHIN_S):
            while not what():  # noqa: ASYNC110  # nobody tells
                await trio.sleep(0.01)

    async def counted(self, **counts: int) -> None:
        await self.until(lambda: all(self.triggers.counts()[name] == count for name, count in counts.items()))


@asynccontextmanager
async def ruled(
    path: Path, servers: MailServers, answer: Answer = echo, config: str = CONFIG, **how: object
) -> AsyncIterator[Ruled]:
    home = path / "home"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(config)
    loaded = load_settings(home, {}, {})
    async with house(path, answer, **how) as made:  # type: ignore[arg-type]
        triggers = Triggers(triggers_of(loaded), made.inbox.accept_event)
        boxes = {"work": (servers.section("ana", poll_s=10), servers.mailbox("ana"))}
        (watched,) = watched_by_rules(triggers, boxes, account_of, Threads(2), plain)
        watched = WatchedMailbox(watched.name, watched.account, watched.mailbox, watched.folders, 0.02)
        beside = Supervisor("beside")
        beside.add(ChildSpec("mail-work", lambda: MailWatcher(watched, made.services.journal.ask)))
        async with beside.running():
            with trio.fail_after(WITHIN_S):
                while not watched.memory.looked:  # noqa: ASYNC110
                    await trio.sleep(0.01)
            yield Ruled(made, triggers, watched, servers)


async def test_a_new_mail_that_matches_is_an_event(tmp_path: Path, servers: MailServers) -> None:
    seen = Seen()
    servers.put("ana", letter(sender="bill@shop.test", subject="Old invoice 2026"))
    async with ruled(tmp_path, servers, seen) as rules:
        rules.put("Your Invoice of May 2026", "A letter")
        rules.put("Invoice 2026", sender="eve@elsewhere.test")
        await rules.counted(taken=1)
        await rules.until(lambda: seen.requests)
        (request,) = seen.requests
        said = [message.content for message in request.messages if message.role == "user"]
        assert "Subject: Your Invoice of May 2026" in said[-2]
        assert said[-1].endswith("look at what came")
        assert not any(b"Seen" in path.name.encode() for path in servers.stored("ana"))
        assert rules.watched.memory.found == 3
    assert all("S" not in path.name.partition(":2,")[2] for path in servers.stored("ana"))


async def test_mails_that_came_while_nothing_ran_are_taken_once(tmp_path: Path, servers: MailServers) -> None:
    async with ruled(tmp_path, servers) as rules:
        rules.put("invoice 1 2026", id="<one@shop.test>")
        await rules.counted(taken=1)
    for number in range(5):
        servers.put("ana", letter(sender="bill@shop.test", subject=f"invoice {number} of 2026"))
    servers.put("ana", letter(sender="bill@shop.test", subject="invoice 1 2026", id="<one@shop.test>"))
    seen = Seen()
    async with ruled(tmp_path, servers, seen) as rules:
        # One of the three newest is known; of the hour's three one is used up.
        await rules.counted(taken=2, repeated=1)
        await rules.until(lambda: seen.requests)
        said = "".join(message.content for request in seen.requests for message in request.messages)
        assert "3 earlier mails came too, and are left out: invoice 0 of 2026" in said


async def test_an_order_in_a_mail_does_nothing_without_a_yes(tmp_path: Path, servers: MailServers) -> None:
    visit = Visit()
    async with ruled(tmp_path, servers, gullible, tools_for=lambda view: (visit,)) as rules:
        with rules.house.services.hub.listening("cli") as events:
            servers.put("ana", letter(HIDDEN, sender="bill@shop.test", subject="invoice 2026"))
            with trio.fail_after(WITHIN_S):
                while "/yes 1" not in getattr((await events.receive()).what, "text", ""):
                    pass
        assert visit.went == []


def test_a_rule_looks_at_parts_of_the_headers() -> None:
    mail = FoundMail(
        "INBOX", 1, 1, "Bill <bill@Shop.test>", "ana@example.test", "Your INVOICE 7", "", 0, 1, True, False
    )
    for rule, fits in (
        ({}, True),
        ({"mail_from": "@shop.test"}, True),
        ({"mail_from": "@shop.test", "mail_subject": "invoice*7"}, True),
        ({"mail_subject": "7*invoice"}, False),
        ({"mail_to": "ben@"}, False),
        ({"mail_subject": "*" * 200}, True),
    ):
        assert matches(TriggerSection.model_validate(rule), mail) is fits, rule


def test_a_mailbox_cannot_show_its_mails_in_a_chat_of_others(tmp_path: Path) -> None:
    people = '[people.ana]\ntelegram = [7]\n[people.ben]\ntelegram = [8]\nmail = ["ben@x.test"]\n[telegram]\n'
    box = '[mail.work]\naddress = "ana@example.test"\nimap = "x.test:993"\npeople = ["ana"]\n'
    for chat, allowed in (
        *(("tg7", True), ("tg7_3", True), ("tg8", False), ("cli", False), ("mail-ben_1", False)),
        *(("tg-100", False), ("mail-ana_1", False)),
    ):
        (tmp_path / "config.toml").write_text(
            f'{people}{box}[triggers.new]\nmail = "work"\nchat = "{chat}"\n'
        )
        if allowed:
            load_settings(tmp_path, {}, {})
        else:
            with pytest.raises(ConfigError, match="a chat of somebody else"):
                load_settings(tmp_path, {}, {})
