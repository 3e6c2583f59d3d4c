"""The questions of `rumi setup` about Matrix: the homeserver, the account, and who may write to it."""

import json
import re
from typing import Final

from rumi.cli import run_async
from rumi.cli.printing import echo
from rumi.cli.setup_asking import Asks
from rumi.platform.texts.translation import error_text
from rumi.texts import Text

NAME: Final = "home"
"""The name of the first account's section."""

_USER: Final = re.compile(r"@[!-9;-~]{1,200}:[A-Za-z0-9.:\[\]-]{1,200}")
DEVICE: Final = "Rumi"


def ask_matrix(wizard: Asks) -> None:
    """Ask for an account at a homeserver, log in, and ask for the people who may write to it."""
    settings = wizard.loaded.settings
    name = next(iter(settings.matrix), NAME)
    known = settings.matrix.get(name)
    wizard.say(
        Text("Rumi needs a Matrix account of its own. People invite it into rooms without encryption.")
    )
    user = _ask_user(wizard, Text("The id of Rumi's own account (Enter: none)"), known.user if known else "")
    if not user:
        return
    url = known.homeserver if known else f"https://{user.partition(':')[2]}"
    while True:
        url = wizard.ask_line(Text("The address of the homeserver"), url)
        given = wizard.ask_line(Text("Its password, or an access token (Enter: leave this out)"), hidden=True)
        if not given:
            return
        token = _tried(wizard, url, user, given)
        if token:
            break
    variable = f"MATRIX_TOKEN_{name.upper()}"
    wizard.secrets[variable] = token
    wizard.keys |= {
        f"matrix.{name}.homeserver": url,
        f"matrix.{name}.user": user,
        f"matrix.{name}.token": f"${variable}",
    }
    before = known.users if known else ()
    theirs = _ask_user(wizard, Text("Your own id, from which you write to it (Enter: none yet)"))
    if theirs and theirs not in before:
        wizard.keys[f"matrix.{name}.users"] = json.dumps([*before, theirs])
    elif not theirs and not before:
        wizard.say(Text('Nobody may write to it yet. Later: [matrix.{name}] users = ["…"]', name=name))


def _ask_user(wizard: Asks, question: Text, before: str = "") -> str:
    """Ask for the id of a user until it is one; empty for none."""
    while user := wizard.ask_line(question, before):
        if _USER.fullmatch(user):
            break
        wizard.say(Text("This is the id of a user, such as @ana:example.org."))
    return user


def _tried(wizard: Asks, url: str, user: str, given: str) -> str:
    """Try a token, or else log in with a password. Return the token to store; empty if nothing works."""
    from rumi.errors import RumiError, single

    wizard.say(Text("Trying it out …"))
    try:
        token = run_async(_log_in, url, user, given)
    except Exception as error:
        known = single(error)
        if not isinstance(known, RumiError):
            raise
        echo(f"✗ {error_text(wizard.language, known)}")
        return ""
    wizard.say(Text("✓ the homeserver knows {user}", user=user))
    return token


async def _log_in(url: str, user: str, given: str) -> str:
    from rumi.channels.matrix.api import MatrixError, open_api
    from rumi.errors import RumiError

    async with open_api(url, given, user) as api:
        try:
            who, _ = await api.whoami()
        except MatrixError as error:
            if error.kind != "token":
                raise
        else:
            if who != user:
                raise RumiError("The token belongs to {who}.", who=who)
            return given
    async with open_api(url, "", user) as api:
        return await api.login(user, given, DEVICE)
