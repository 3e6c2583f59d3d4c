"""The page: the running Rumi in a browser, and a window on the chats of its owner.

An ASGI server (hypercorn, on trio) is kept by one actor; what it may show and who may see it outlives that
actor's incarnations. Only this room knows the server and its framework.
"""

from rumi.channels.page.login import open_entrance
from rumi.channels.page.page import PageChannel

__all__ = ["PageChannel", "open_entrance"]
