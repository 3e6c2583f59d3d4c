"""The browsers of all owners: started at first use, ended when they are idle, each with its own profile."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from actors import ActorError, ActorStopped, ChildSpec, DynamicSupervisor, Supervisor, TooManyChildren
from rumi.platform.threads import Threads
from rumi.web.browser import profile as profiles
from rumi.web.browser.browser import Browser, KnownBrowser
from rumi.web.browser.messages import (
    BrowserEnded,
    BrowserError,
    BrowserMessage,
    BrowserSettings,
    DoStep,
    OpenPage,
    Step,
    StepResult,
)
from rumi.web.browser.snapshot import PageSnapshot

SHUTDOWN_S: Final = 8.0
MOST_BROWSERS: Final = 4
"""Maximum number of browsers that run at the same time."""


class Browsers:
    """One browser for each owner. They crash alone, and their supervisor starts none again by itself."""

    def __init__(
        self,
        root: Supervisor,
        home: Path,
        settings: BrowserSettings,
        belongs: Callable[[str, Sequence[str]], bool],
    ) -> None:
        """Add the browsers' supervisor to the actor tree.

        `belongs` says whether a password of these people may be typed in the browser of an owner.
        """
        self.settings = settings
        self._home = home
        self._belongs = belongs
        self._offload = Threads()
        self._known: dict[str, KnownBrowser] = {}

        def spec_for(owner: str) -> ChildSpec[BrowserMessage]:
            own, profile = self.settings_of(owner), profiles.profile_of(home, owner)
            return ChildSpec(
                owner,
                lambda: Browser(self._of(owner), own, profile, self._offload),
                restart="temporary",
                shutdown=SHUTDOWN_S,
                idle_s=settings.idle_s,
            )

        self._supervisor: DynamicSupervisor[BrowserMessage] = DynamicSupervisor(
            profiles.FOLDER, spec_for, max_children=MOST_BROWSERS
        )
        root.add_supervisor(self._supervisor)

    def settings_of(self, owner: str) -> BrowserSettings:
        """Return the settings of an owner's browser, with the passwords that may be typed in it."""
        passwords = {
            name: one for name, one in self.settings.passwords.items() if self._belongs(owner, one.people)
        }
        return replace(self.settings, passwords=passwords)

    async def do(self, owner: str, chat: str, step: Step) -> StepResult:
        """Do a step on the page of a chat. On cancellation, nothing of the step keeps running.

        Raises:
            BrowserError: The browser cannot be used, or the step was not done.
        """
        try:
            return await self._ask(owner, DoStep(chat, step))
        except ActorStopped:
            pass  # it was just ending, and has not begun the step
        except BrowserEnded:
            if not isinstance(step, OpenPage):
                raise  # its page is gone
        except TooManyChildren as error:
            raise BrowserError(
                "Too many browsers of others are open now.", "Try again in some minutes."
            ) from error
        except ActorError as error:
            raise BrowserEnded from error
        try:
            return await self._ask(owner, DoStep(chat, step))
        except ActorError as error:
            raise BrowserEnded from error

    async def _ask(self, owner: str, step: DoStep) -> StepResult:
        browser = await self._supervisor.get_or_start(owner)
        return await browser.ask(step)

    def snapshot(self, owner: str, chat: str) -> PageSnapshot | None:
        """Return the page of a chat as the chat last saw it; None if none is open."""
        known = self._known.get(owner)
        return None if known is None else known.snapshots.get(chat)

    async def forget(self, owner: str) -> int:
        """End an owner's browser and delete its profile; return the number of deleted profiles.

        Raises:
            BrowserError: A file of the profile cannot be deleted.
        """
        await self._supervisor.stop(owner)
        return int(await self._offload(partial(profiles.delete, profiles.profile_of(self._home, owner))))

    def _of(self, owner: str) -> KnownBrowser:
        return self._known.setdefault(owner, KnownBrowser())
