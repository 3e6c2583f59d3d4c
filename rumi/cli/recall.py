"""The old command `rumi recall QUERY`; `search.py` beside it has `rumi chats search`."""

from datetime import datetime

import click

from rumi.cli.asking import ask
from rumi.cli.printing import JSON, echo, echo_json
from rumi.cli.speaking import reader, say


@click.command()
@click.argument("query", nargs=-1, required=True)
@click.option("--owner", default="local", help="Whose conversations: local, or such as tg11111111.")
@click.option("--since", default="", metavar="DAY", help="Nothing before this day.")
@click.option("--until", default="", metavar="DAY", help="Nothing after this day.")
@click.option("--who", type=click.Choice(["user", "assistant"]), help="Only what one side said.")
@click.option(
    "--tokens", type=click.IntRange(100, 8000), default=1000, show_default=True, help="Size of the answer."
)
@JSON
def command(
    query: tuple[str, ...], owner: str, since: str, until: str, who: str | None, tokens: int, as_json: bool
) -> None:
    """Find what was said about QUERY, the best first, with its date. The exit code is 1 if nothing is found.

    A day is like 2026-11-23, yesterday, march, or "el martes pasado".
    """
    from rumi.memory.recall.messages import Passage
    from rumi.memory.recall.presenting import shown

    words = " ".join(query)
    found = ask(
        "recall", "recall", query=words, owner=owner, since=since, until=until, who=who or "", tokens=tokens
    )
    if as_json:
        echo_json(found, indent=2)
    elif found:
        passages = [
            Passage(**{**fields, "at": datetime.fromisoformat(fields["at"]).timestamp()}) for fields in found
        ]
        echo(shown(reader(), passages))
    else:
        say("Found nothing about that.", err=True)
    if not found:
        raise click.exceptions.Exit(1)
