"""The page: shows the running Rumi process in a browser, where the owner can also use their chats.

One actor runs an ASGI server (hypercorn, on trio). The page's state and its login sessions outlive restarts
of that actor. Only this package and `rumi.channels.http` import hypercorn and the web framework.
"""

from rumi.channels.page.login import open_entrance
from rumi.channels.page.page import PageChannel

__all__ = ["PageChannel", "open_entrance"]
