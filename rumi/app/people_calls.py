"""Control calls for the people who may talk to Rumi, and what `rumi config people` shares with them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rumi.agent.permissions.rights import Rights
from rumi.app.settings import people_of, roles_of
from rumi.chats.budgets.meter import Budgets
from rumi.chats.budgets.report import report
from rumi.chats.people.people import OWNER
from rumi.errors import UsageError
from rumi.platform.caller import Caller
from rumi.platform.calls import call
from rumi.platform.chat_ids import BUILT_IN
from rumi.platform.config.cascade import FILE_NAME, Loaded, load_settings
from rumi.platform.config.editing import edit_toml, section_in, set_keys
from rumi.platform.config.people import BUILT_IN as BUILT_IN_ROLES
from rumi.platform.threads import Offload


def person_rows(loaded: Loaded, used: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each person, the owner of the home first; `used` is today's usage by person."""
    principals = {person.name: person for person in (OWNER, *people_of(loaded, BUILT_IN).all)}
    rows = []
    for name, principal in principals.items():
        rights, today = principal.rights, used.get(name, {})
        rows.append(
            {
                "name": name,
                "ids": list(principal.users),
                "role": rights.role,
                "tools": None if rights.tools is None else list(rights.tools),
                "schedules": rights.schedules,
                "bots": rights.bots,
                "tokens": today.get("prompt_tokens", 0) + today.get("completion_tokens", 0),
                "usd": today.get("usd", 0.0),
            }
        )
    return rows


def _rights_row(rights: Rights) -> dict[str, object]:
    return {
        "admin": rights.admin,
        "tools": None if rights.tools is None else list(rights.tools),
        "models": None if rights.models is None else list(rights.models),
        "schedules": rights.schedules,
        "bots": rights.bots,
        "changes_files": rights.changes_files,
        "limits": [asdict(limit) for limit in rights.limits],
    }


def set_person(home: Path, name: str, ids: Sequence[int] | None, role: str) -> None:
    """Write [people.NAME] into config.toml; None and an empty text leave a key as it is. Blocking.

    Raises:
        ConfigError: A value is not allowed, or the file cannot be read or written.
    """
    values = {} if ids is None else {f"people.{name}.telegram": json.dumps([*ids])}
    if role:
        values[f"people.{name}.role"] = role
    set_keys(home / FILE_NAME, values)


def remove_person(home: Path, loaded: Loaded, name: str) -> None:
    """Remove the section [people.NAME] from config.toml. Lists of [telegram] stay as they are. Blocking.

    Raises:
        UsageError: There is no such section.
        ConfigError: The file cannot be read or written.
    """
    if name not in loaded.settings.people:
        raise UsageError("Unknown person {name}.", "Look at the list: rumi config people list", name=name)
    edit_toml(home / FILE_NAME, lambda document: section_in(document, ("people",)).pop(name, None))


@dataclass(frozen=True, slots=True)
class PeopleCalls:
    """The control calls for people, for the owner of the home alone. Changes count from the next start on.

    `environment` has the variables that override config.toml; `audit` writes a line of the audit log.
    """

    home: Path
    budgets: Budgets
    offload: Offload
    audit: Callable[..., None]
    environment: Mapping[str, str]

    @call("people.list", rights="all")
    async def list(self, caller: Caller) -> object:
        """Return the people of config.toml with role and rights and what they used today, and all roles.

        `named` is true for a person with a section [people.NAME], which can be changed and removed. `rights`
        has the rights of each role; null stands for no limit.
        """
        caller.check_owner_of_home()
        loaded, today = await self._stored(), self.budgets.today()
        used = await report(self.budgets, "person", first=today, last=today)
        by_person = {row["person"]: row for row in used["rows"]}  # type: ignore[attr-defined]
        known = loaded.settings
        rows = [{**row, "named": row["name"] in known.people} for row in person_rows(loaded, by_person)]
        rights = roles_of(loaded)
        roles = [*dict.fromkeys((*BUILT_IN_ROLES, *known.roles))]
        return {"people": rows, "roles": roles, "rights": {role: _rights_row(rights[role]) for role in roles}}

    @call("people.add", rights="all")
    async def add(
        self, caller: Caller, *, name: str, telegram: Sequence[int], role: str = "member"
    ) -> object:
        """Add a person with one or more Telegram ids, and return the people.

        Raises:
            UsageError: There is a person of that name, or no id is given.
            ConfigError: A value is not allowed, or the file cannot be written.
        """
        caller.check_owner_of_home()
        if name in (await self._stored()).settings.people:
            raise UsageError("There is a person {name} already.", "Choose another name.", name=name)
        if not telegram:
            raise UsageError("The person needs a Telegram id.", "Write to the bot: it tells you your number.")
        return await self._set(caller, name, telegram, role)

    @call("people.set", rights="all")
    async def set(
        self, caller: Caller, *, name: str, telegram: Sequence[int] | None = None, role: str = ""
    ) -> object:
        """Change the Telegram ids or the role of a person, and return the people.

        Raises:
            UsageError: There is no such person.
            ConfigError: A value is not allowed, or the file cannot be written.
        """
        caller.check_owner_of_home()
        if name not in (await self._stored()).settings.people:
            raise UsageError("Unknown person {name}.", "Look at the list of people.", name=name)
        return await self._set(caller, name, telegram, role)

    @call("people.remove", rights="all")
    async def remove(self, caller: Caller, *, name: str) -> object:
        """Remove a person, and return the people.

        Raises:
            UsageError: There is no such person.
            ConfigError: The file cannot be written.
        """
        caller.check_owner_of_home()
        await self.offload(partial(remove_person, self.home, await self._stored(), name))
        self.audit("person_changed", chat_id="", person=name, role=None, by=caller.channel)
        return await self.list(caller)

    async def _set(self, caller: Caller, name: str, telegram: Sequence[int] | None, role: str) -> object:
        await self.offload(partial(set_person, self.home, name, telegram, role))
        self.audit("person_changed", chat_id="", person=name, role=role, by=caller.channel)
        return await self.list(caller)

    async def _stored(self) -> Loaded:
        return await self.offload(partial(load_settings, self.home, self.environment, {}))
