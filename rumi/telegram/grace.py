"""For this room: see `rumi.grace`."""

from rumi.grace import with_grace

__all__ = ["with_grace"]
