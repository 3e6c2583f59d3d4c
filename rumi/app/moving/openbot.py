"""Reads the home of openbot: `~/.openbot`. Its bots are taken over by `rumi bot import`'s importer."""

from rumi.app.moving.reading import HomeReader
from rumi.texts import Text


def read(source: HomeReader) -> None:
    """Note what the importer of bots does not take over."""
    for name in ("sessions", "logs", ".env"):
        if name in source.names():
            source.moved.leave("config", name, Text("only bots and skills of openbot are taken over"))
