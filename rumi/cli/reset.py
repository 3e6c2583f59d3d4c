"""`rumi chats reset CHAT`."""

import click


@click.command()
@click.argument("chat")
def command(chat: str) -> None:
    """Reset CHAT, like /reset in it: its container and history are removed, its files stay.

    A chat without messages does not exist; then the exit code is 2.

    docs/forgetting.md compares the ways to forget.
    """
    from rumi.cli.control import say

    say(chat, "reset")
