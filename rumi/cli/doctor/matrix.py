"""Checks of Matrix accounts: the settings, and with `--online` the homeserver and its rooms."""

from functools import partial

from rumi.cli.doctor.check import Check, Examination
from rumi.platform.config.cascade import Loaded
from rumi.platform.config.commands import read_keys
from rumi.platform.config.people import matrix_users
from rumi.platform.config.secrets import matrix_key
from rumi.platform.extras import install_command, is_installed
from rumi.texts import Text

MOST_ROOMS = 50
"""Maximum number of rooms that are asked whether they are encrypted."""


def matrix_accounts(loaded: Loaded) -> list[Check]:
    """Check that each account has a token, and that somebody may write to it."""
    checks = []
    for name, account in loaded.settings.matrix.items():
        title, users = f"matrix {name}", len(matrix_users(loaded.settings, name))
        if account.token is None:
            found, fix = Text("{user} has no token", user=account.user), Text("Set it with: rumi setup")
            checks.append(Check(title, "failure", found, fix))
        elif not users:
            fix = Text('Put ids into config.toml: [matrix.{name}] users = ["…"]', name=name)
            checks.append(Check(title, "warning", Text("nobody may write to {user}", user=account.user), fix))
        else:
            said = Text(
                "{count} user may write to {user}",
                many="{count} users may write to {user}",
                count=users,
                user=account.user,
            )
            checks.append(Check(title, "ok", said))
    return checks


async def homeservers(examination: Examination, loaded: Loaded) -> None:
    """Check each account at its homeserver; each has a finding of its own."""
    known = await read_keys(loaded)
    for name in known.settings.matrix:
        await examination.look(f"matrix {name} online", partial(_account, known, name))


async def _account(loaded: Loaded, name: str) -> list[Check]:
    from rumi.channels.matrix.api import open_api

    account, title, key = loaded.settings.matrix[name], f"matrix {name} online", matrix_key(name)
    if (fault := loaded.secrets.faults.get(key)) is not None:
        return [Check(title, "failure", fault.message, fault.advice)]
    token = loaded.secrets.keys.get(key)
    if token is None:
        return [Check(title, "failure", Text("the account has no token"), Text("Set it with: rumi setup"))]
    async with open_api(account.homeserver, token.reveal(), account.user) as api:
        user, _ = await api.whoami()
        if user != account.user:
            found = Text("the token belongs to {user}", user=user)
            return [Check(title, "failure", found, Text("Make a new one with: rumi setup"))]
        rooms = await api.joined()
        sealed = [room for room in rooms[:MOST_ROOMS] if await api.state(room, "m.room.encryption")]
    if sealed and loaded.settings.store.url:
        found = Text(
            "{user} is in {count} encrypted room, which several workers cannot read",
            many="{user} is in {count} encrypted rooms, which several workers cannot read",
            user=user,
            count=len(sealed),
        )
        return [Check(title, "warning", found, Text("Invite it into rooms without encryption."))]
    if sealed and not is_installed("e2e"):
        found = Text(
            "{user} is in {count} encrypted room, which it cannot read without the extra `e2e`",
            many="{user} is in {count} encrypted rooms, which it cannot read without the extra `e2e`",
            user=user,
            count=len(sealed),
        )
        return [Check(title, "warning", found, Text("Install it: {command}", command=install_command("e2e")))]
    return [Check(title, "ok", Text("{user} is in {count} rooms", user=user, count=len(rooms)))]
