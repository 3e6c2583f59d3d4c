"""`rumi recall QUERY`."""

import os
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

import click

from rumi.cli import run_async
from rumi.cli.asking import when_free
from rumi.cli.printing import echo, echo_json
from rumi.cli.speaking import reader, say

if TYPE_CHECKING:
    from rumi.platform.home import Home


@click.command()
@click.argument("query", nargs=-1, required=True)
@click.option("--owner", default="local", help="Whose conversations: local, or such as tg11111111.")
@click.option("--since", default="", metavar="DAY", help="Nothing before this day.")
@click.option("--until", default="", metavar="DAY", help="Nothing after this day.")
@click.option("--who", type=click.Choice(["user", "assistant"]), help="Only what one side said.")
@click.option("-n", "--limit", type=click.IntRange(1, 20), default=5, show_default=True, help="Passages.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def command(
    query: tuple[str, ...], owner: str, since: str, until: str, who: str | None, limit: int, as_json: bool
) -> None:
    """Find what was said about QUERY, the best first, with its date. The exit code is 1 if nothing is found.

    A day is like 2026-11-23, yesterday, march, or "el martes pasado".
    """
    from rumi.memory.recall.messages import Passage
    from rumi.memory.recall.presenting import shown
    from rumi.platform.config.files import home_from
    from rumi.platform.home import Home

    home = Home(home_from(os.environ)).make()
    request = {
        "do": "recall", "query": " ".join(query), "owner": owner, "since": since, "until": until,
        "who": who or "", "limit": limit,
    }  # fmt: skip
    found = cast("list[dict[str, Any]]", run_async(when_free, home, "recall", _here, request))
    if as_json:
        echo_json(found, indent=2)
    elif found:
        passages = [
            Passage(**{**fields, "at": datetime.fromisoformat(fields["at"]).timestamp()}) for fields in found
        ]
        echo(shown(reader(), passages))
    else:
        say("Nothing of that was said.", err=True)
    if not found:
        raise click.exceptions.Exit(1)


async def _here(home: "Home", request: Mapping[str, object]) -> object:
    """Execute the request on the databases of a home that no process has locked."""
    import time

    from rumi.app.recall_calls import RecallCommands
    from rumi.cli.stored import stored_of
    from rumi.memory.recall.actor import open_recall
    from rumi.platform.caller import TERMINAL
    from rumi.platform.calls import answer
    from rumi.platform.chat_ids import BUILT_IN
    from rumi.store.journal.actor import open_journal

    with home.lock("rumi recall"):
        state = stored_of(home).state
        async with open_journal(state):  # migrates the database, which the recall index only reads
            pass
        async with open_recall(home.recall_db, state, BUILT_IN) as ask:
            return await answer(RecallCommands(ask, BUILT_IN, time.time), "recall", TERMINAL, request)
