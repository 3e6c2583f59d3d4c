"""`rumi chats stop CHAT`, `rumi chats stop --all`."""

import click

from rumi.cli.speaking import tr


@click.command()
@click.argument("chat", required=False)
@click.option(
    "--all", "everything", is_flag=True, help="Stop all turns, tasks and bots, and pause all schedules."
)
def command(chat: str | None, everything: bool) -> None:
    """Stop what CHAT is doing, like /stop in it. If nothing runs, that is not an error."""
    from rumi.cli.control import say

    if everything == (chat is not None):
        raise click.UsageError(tr("Name a chat, or use --all."))
    say(chat or "", "stop")
