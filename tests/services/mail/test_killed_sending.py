"""`kill -9` in the middle of sending: no mail is sent twice, and each outcome that is told is true."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from rumi.services.mail.client import Mailbox
from rumi.services.mail.sending import SentBefore, deliver, how_it_ended
from rumi.store.journal.actor import open_journal
from tests.mail_servers import PASSWORD, MailServers
from tests.services.mail.cut_lines import CutLine, cut_line
from tests.services.mail.sending_processes import effect_of, mail_of


@pytest.fixture
def sender() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.services.mail.sending_processes"]
    root = Path(__file__).resolve().parents[3]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root, bufsize=1
    )
    yield process
    assert process.stdin is not None
    process.stdin.close()
    process.wait(10)
    assert process.stdout is not None
    process.stdout.close()


async def line_of(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(await trio.to_thread.run_sync(process.stdout.readline))


def moments(smtp: dict[str, int], imap: dict[str, int]) -> list[tuple[str, str, int]]:
    """One hundred moments over all bytes of both connections, most of them around the end of the text."""

    def spread(total: int, count: int) -> list[int]:
        return [1 + at * (total - 1) // (count - 1) for at in range(count)]

    # Answers name queues and times, so their lengths differ a little: no moment is at the very end.
    up, down = smtp["up"], smtp["down"] - 20
    end = up - len("QUIT\r\n")
    chosen = [("smtp", "up", at) for at in (*spread(up, 28), *(end - back for back in range(-1, 11)))]
    chosen += [
        ("smtp", "down", at) for at in (*spread(down, 28), *(down - back for back in range(4, 80, 10)))
    ]
    chosen += [("imap", "up", at) for at in spread(imap["up"], 12)]
    return chosen + [("imap", "down", at) for at in spread(imap["down"] - 60, 12)]


@pytest.mark.long
async def test_no_mail_is_sent_twice_and_each_is_told(
    tmp_path: Path, mail_servers: MailServers, sender: subprocess.Popen[str]
) -> None:
    journal = tmp_path / "state.db"
    box = mail_servers.mailbox("ana", most_per_day=1000)
    ends: list[str] = []
    async with cut_line(mail_servers.smtp) as smtp, cut_line(mail_servers.imap) as imap:

        async def begin(turn: str) -> int:
            section = {"address": "ana@example.test", "user": "ana", "imap": f"127.0.0.1:{imap.here}"}
            section["smtp"] = f"127.0.0.1:{smtp.here}"
            order = {"section": section, "password": PASSWORD, "turn": turn, "journal": str(journal)}
            assert sender.stdin is not None
            sender.stdin.write(json.dumps(order) + "\n")
            return await line_of(sender)

        await begin("whole")
        assert await line_of(sender) == 0
        chosen = moments(dict(smtp.counted), dict(imap.counted))
        assert len(chosen) == 100
        lines: dict[str, CutLine] = {"smtp": smtp, "imap": imap}
        for number, (which, direction, upto) in enumerate(chosen):
            for line in lines.values():
                line.stop_at("", 0)
            lines[which].stop_at(direction, upto)
            pid = await begin(f"t{number}")
            with trio.fail_after(30):
                await lines[which].reached.wait()
            os.kill(pid, signal.SIGKILL)
            assert await line_of(sender) == signal.SIGKILL
            ends.append(await told(journal, box, f"t{number}"))
    ids = [str(mail_of(f"t{number}").message_id) for number in range(100)]
    with trio.fail_after(20):  # Postfix delivers what it has taken
        wanted = {id for id, end in zip(ids, ends, strict=True) if end != "unknown"}
        while not wanted <= set(mail_servers.message_ids("bob")):  # noqa: ASYNC110
            await trio.sleep(0.1)
    await trio.sleep(0.5)
    arrived = Counter(mail_servers.message_ids("bob"))
    for id, end, moment in zip(ids, ends, chosen, strict=True):
        # "Not sent" was sent again, so a wrong answer would give two.
        assert arrived[id] == 1 if end != "unknown" else arrived[id] <= 1, (moment, end)
    kinds = Counter(ends)
    assert set(kinds) == {"sent", "not_sent", "unknown"}
    assert kinds["unknown"] <= 35, kinds  # only what was killed between the mark and the stored answer
    assert (kinds["not_sent"], kinds["sent"]) >= (30, 20), kinds


async def told(journal: Path, box: Mailbox, turn: str) -> str:
    """Return what the next process tells about a mail; send it again if it was not sent."""
    effect = effect_of(turn)
    async with open_journal(journal) as ask:
        ended, _ = await how_it_ended(ask, box, effect, mail_of(turn).message_id)
        if ended == "not_sent":
            await deliver(ask, box, mail_of(turn), effect, 1_790_000_000.0)
        else:
            with pytest.raises(SentBefore):
                await deliver(ask, box, mail_of(turn), effect, 1_790_000_000.0)
    return ended
