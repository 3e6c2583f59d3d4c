"""`rumi stop CHAT`."""

import click


@click.command()
@click.argument("chat")
def command(chat: str) -> None:
    """Stop what CHAT is doing, like /stop in it. Nothing to stop is no error."""
    from rumi.cli.attach import say

    say(chat, "stop")
