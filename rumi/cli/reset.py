"""`rumi reset CHAT`."""

import click


@click.command()
@click.argument("chat")
def command(chat: str) -> None:
    """Reset CHAT, like /reset in it: its container and history go, its files stay.

    A chat in which nothing was ever said does not exist: that is exit code 2.
    """
    from rumi.cli.attach import say

    say(chat, "reset")
