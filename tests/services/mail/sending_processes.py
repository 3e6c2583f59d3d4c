"""A process that sends mails in processes of its own, each of which its parent may kill.

It reads lines of JSON with what to send, forks, and prints the number of the new process; so Python and its
modules are loaded once. The fork sends by the real client with the real journal, and ends with 0 when it has.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import trio

from rumi.platform.config.schema import MailSection
from rumi.services.mail.client import Mailbox
from rumi.services.mail.sending import EffectOfMail, deliver
from rumi.services.mail.writing import Draft, Outgoing, recipient_of, recipients_of, written
from rumi.store.journal.actor import open_journal

TEXT = "".join(f"line {number}\n.dots\n" for number in range(20))


def effect_of(turn: str) -> EffectOfMail:
    return EffectOfMail("cli", turn, f"key of {turn}", "to bob")


def mail_of(turn: str) -> Outgoing:
    to = recipients_of(["bob@example.test"])
    draft = Draft(recipient_of("ana@example.test"), to, subject="x", text=TEXT)
    return written(draft, effect_of(turn).message_key, 1_790_000_000.0)


async def send(order: dict[str, Any]) -> None:
    section = MailSection.model_validate(order["section"] | {"most_per_day": 1000})
    box = Mailbox("ana", section, order["password"])
    turn = order["turn"]
    async with open_journal(Path(order["journal"])) as ask:
        await deliver(ask, box, mail_of(turn), effect_of(turn), 1_790_000_000.0)


def main() -> None:
    for line in sys.stdin:
        if (pid := os.fork()) == 0:
            os.close(0)
            try:
                trio.run(send, json.loads(line))
            except BaseException as error:  # noqa: BLE001 - a fork must never return into the loop
                print(repr(error), file=sys.stderr)
                os._exit(1)
            os._exit(0)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(status, flush=True)


if __name__ == "__main__":
    main()
