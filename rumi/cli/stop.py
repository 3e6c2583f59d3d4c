"""`rumi stop CHAT`."""

import click


@click.command()
@click.argument("chat")
def command(chat: str) -> None:
    """Stop what CHAT is doing, like /stop in it. If nothing runs, that is not an error."""
    from rumi.cli.attach import say

    say(chat, "stop")
