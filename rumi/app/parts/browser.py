"""The browser part: the browsers of all owners, and their tools for chats. Off until it is configured."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rumi.agent.tool import Tool
from rumi.app.parts.inputs import TreeInputs
from rumi.chats.context import ChatView
from rumi.platform.config.cascade import Loaded
from rumi.platform.config.secrets import password_key, plain
from rumi.platform.redact import Redactor
from rumi.web.readers.files.viewer import Seen, Viewer

if TYPE_CHECKING:
    from rumi.web.browser.browsers import Browsers
    from rumi.web.browser.messages import BrowserSettings, Password


@dataclass(frozen=True, slots=True)
class BrowserPart:
    """The browsers; None if they are not enabled, or if no browser is installed."""

    browsers: "Browsers | None"
    inputs: TreeInputs
    viewer: Viewer

    def tools_for(self, view: ChatView) -> tuple[Tool, ...]:
        """Return the browser's tools for a chat; none without a browser."""
        if self.browsers is None:
            return ()
        from rumi.agent.tools.browser_act import BrowserClick, BrowserFill
        from rumi.agent.tools.browser_open import BrowserOpen, BrowserRead
        from rumi.agent.tools.browser_page import ChatPage

        async def look(picture: bytes) -> Seen:
            await view.touch_files()
            await view.mark_files_tainted()
            return await self.viewer.picture(view.chat, picture)

        owner, browsers = self.inputs.ids.owner_of(view.chat), self.browsers
        page = ChatPage(
            partial(browsers.do, owner, view.chat), partial(browsers.snapshot, owner, view.chat), look
        )
        return (BrowserOpen(page), BrowserRead(page), BrowserClick(page), BrowserFill(page))

    async def forget(self, owner: str) -> int:
        """Delete an owner's profile, also one that is left of an earlier configuration."""
        if self.browsers is not None:
            return await self.browsers.forget(owner)
        from rumi.platform.threads import Threads
        from rumi.web.browser.profile import delete, profile_of

        return int(await Threads()(partial(delete, profile_of(self.inputs.home.root, owner))))


def add_browser(
    inputs: TreeInputs, viewer: Viewer, belongs: Callable[[str, Sequence[str]], bool]
) -> BrowserPart:
    """Add the browsers' supervisor to the actor tree, if they are enabled and a browser is installed.

    `belongs` says whether what belongs to people may be used by an owner.
    """
    if not inputs.loaded.settings.browser.enabled:
        return BrowserPart(None, inputs, viewer)
    from rumi.web.browser.browsers import Browsers
    from rumi.web.browser.finding import find_browser
    from rumi.web.browser.messages import BrowserError

    try:
        find_browser(inputs.loaded.settings.browser.program)
    except BrowserError:
        return BrowserPart(None, inputs, viewer)  # `rumi doctor` says what to install
    browsers = Browsers(inputs.root, inputs.home.root, browser_settings_of(inputs.loaded), belongs)
    return BrowserPart(browsers, inputs, viewer)


def browser_settings_of(loaded: Loaded) -> "BrowserSettings":
    """Return the settings of the browsers, with the passwords."""
    from rumi.web.browser.messages import BrowserSettings

    section = loaded.settings.browser
    return BrowserSettings(
        program=section.program,
        idle_s=section.idle_s,
        timeout_s=section.timeout_s,
        max_bytes=section.max_mb << 20,
        max_pages=section.max_pages,
        allow=loaded.settings.fetch.allow,
        passwords=_passwords(loaded),
        redact=Redactor(loaded.secrets.values()),
    )


def _passwords(loaded: Loaded) -> "Mapping[str, Password]":
    from rumi.web.browser.messages import Password

    secrets = loaded.secrets
    return {
        name: Password(
            section.host,
            plain(secrets.keys.get(password_key(name))),
            secrets.faults.get(password_key(name)),
            section.people,
        )
        for name, section in loaded.settings.browser.passwords.items()
    }
