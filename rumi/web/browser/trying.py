"""Tries out whether a browser works here, without Rumi running."""

import tempfile
from pathlib import Path
from typing import Final

import trio

from rumi.platform.threads import Threads
from rumi.web.browser.chromium import running
from rumi.web.browser.messages import BrowserError, BrowserSettings
from rumi.web.guard import AddressGuard
from rumi.web.outbound import Outbound
from rumi.web.resolver import SystemResolver

TRY_S: Final = 20.0
"""Maximum time for the browser to start and to open a page of its own, in seconds."""

_PAGE: Final = "data:text/html,<title>works</title>"


async def try_browser(settings: BrowserSettings) -> str:
    """Start the browser with a profile that is deleted afterwards; return its name and version.

    It opens a page of its own and no address. On cancellation, leaves no process and no profile behind.

    Raises:
        BrowserError: It does not start, or opens no page.
    """
    with tempfile.TemporaryDirectory(prefix="rumi-browser-") as folder:
        outbound = Outbound(AddressGuard(SystemResolver()))
        with trio.move_on_after(TRY_S):
            async with running(settings, Path(folder) / "profile", outbound, Threads()) as browser:
                version = await browser.cdp.call("Browser.getVersion")
                target = await browser.cdp.call("Target.createTarget", {"url": _PAGE})
                while True:
                    answer = await browser.cdp.call("Target.getTargetInfo", {"targetId": target["targetId"]})
                    if answer["targetInfo"]["title"] == "works":
                        return str(version["product"])
                    await trio.sleep(0.05)
    raise BrowserError("The browser opens no page within {seconds} s.", seconds=f"{TRY_S:g}")
