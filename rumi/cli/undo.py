"""`rumi chats undo CHAT`."""

import click


@click.command()
@click.argument("chat")
def command(chat: str) -> None:
    """Take the last turn of CHAT back, like /undo in it: its files, facts and schedules are as before it."""
    from rumi.cli.control import say

    say(chat, "undo")
