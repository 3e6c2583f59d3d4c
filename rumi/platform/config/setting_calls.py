"""Control calls for the settings that the page may change."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from rumi.errors import UsageError
from rumi.platform.caller import Caller
from rumi.platform.calls import call
from rumi.platform.config.cascade import FILE_NAME, Loaded, load_settings
from rumi.platform.config.changeable import CHANGEABLE, about, form_of
from rumi.platform.config.editing import set_keys, unset_keys
from rumi.platform.threads import Offload
from rumi.texts import Language

FROM_FILE: Final = ("default", FILE_NAME)
"""Origins of values that config.toml may replace."""

OF_TERMINAL: Final = "terminal."
"""Prefix of settings that terminals read when they start, and this process does not use."""


@dataclass(frozen=True, slots=True)
class SettingCalls:
    """The control calls for settings, for the owner of the home alone.

    `running` is the configuration with which this process has started; `environment` the variables that
    override config.toml; `audit` writes a line of the audit log. A chat, a skill, a folder and a model can
    make no control call, so none of them can change the configuration.
    """

    home: Path
    running: Loaded
    offload: Offload
    audit: Callable[..., None]
    environment: Mapping[str, str]

    @call("settings.list", rights="all")
    async def list(self, caller: Caller, *, language: Language = "en") -> object:
        """Return the settings that the page may change, with type, choices, value and default.

        `running` is the value that this process uses. If it differs from `value`, the process uses `value`
        after its next start. A setting is not `changeable` if a `variable` of the environment sets it.
        """
        caller.check_owner_of_home()
        loaded = await self._stored()
        return [self._shown(name, loaded, language) for name in CHANGEABLE]

    @call("settings.set", rights="all")
    async def set(
        self, caller: Caller, *, name: str, value: str | bool | int | float, language: Language = "en"
    ) -> object:
        """Set a setting in config.toml, and return it. It is used after the next start.

        Raises:
            UsageError: The page may not change this setting, or a variable of the environment sets it.
            ConfigError: The value is not allowed, or the file cannot be written.
        """
        caller.check_owner_of_home()
        await self._check(name)
        await self.offload(partial(set_keys, self.home / FILE_NAME, {name: value}))
        self.audit("setting_changed", chat_id="", setting=name, value=str(value), by=caller.channel)
        return self._shown(name, await self._stored(), language)

    @call("settings.unset", rights="all")
    async def unset(self, caller: Caller, *, name: str, language: Language = "en") -> object:
        """Remove a setting from config.toml, so that its default counts again, and return the setting.

        Raises:
            UsageError: The page may not change this setting, or a variable of the environment sets it.
            ConfigError: The file cannot be read or written.
        """
        caller.check_owner_of_home()
        await self._check(name)
        await self.offload(partial(unset_keys, self.home / FILE_NAME, [name]))
        self.audit("setting_changed", chat_id="", setting=name, value=None, by=caller.channel)
        return self._shown(name, await self._stored(), language)

    async def _stored(self) -> Loaded:
        """Return the configuration that a start would use now, without flags."""
        return await self.offload(partial(load_settings, self.home, self.environment, {}))

    async def _check(self, name: str) -> None:
        about(name)
        origin = (await self._stored()).origins[name]
        if origin not in FROM_FILE:
            raise UsageError(
                "The variable {variable} of the environment sets {name}.",
                "Change it where Rumi is started, and start again.",
                variable=origin,
                name=name,
            )

    def _shown(self, name: str, loaded: Loaded, language: Language) -> dict[str, object]:
        origin, value = loaded.origins[name], _value(loaded, name)
        running = _value(self.running, name)
        from_file = origin in FROM_FILE
        return {
            "name": name,
            "about": about(name).in_language(language),
            **form_of(name),
            "value": value,
            "set": origin != "default",
            "running": running,
            "waits_for_start": running != value and not name.startswith(OF_TERMINAL),
            "changeable": from_file,
            "variable": None if from_file else origin,
        }


def _value(loaded: Loaded, name: str) -> object:
    found: object = loaded.settings
    for part in name.split("."):
        found = getattr(found, part)
    return found
