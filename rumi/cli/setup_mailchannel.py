"""The questions of `rumi setup` about mail as a channel: Rumi's own mailbox, and who may write to it."""

import json
import re
from typing import Final

from rumi.cli.setup_asking import Asks
from rumi.cli.setup_mail import ask_address, ask_servers
from rumi.platform.config.people import MOST_NAME_CHARS, channel_mailbox
from rumi.texts import Text

NAME: Final = "rumi"
"""The name of the section of Rumi's own mailbox."""


def ask_channel(wizard: Asks) -> None:
    """Ask for Rumi's own mailbox, try both servers, and ask for the first person who may write to it."""
    settings = wizard.loaded.settings
    known = channel_mailbox(settings)
    name, before = (NAME, "") if known is None else (known[0], known[1].address)
    wizard.say(
        Text(
            "Rumi needs a mailbox of its own: whoever is on the list writes to it, and gets answers from it. "
            "Their mail servers have to sign mails (DKIM), as all big ones do."
        )
    )
    address = ask_address(wizard, Text("The address of Rumi's own mailbox (Enter: none)"), before)
    if not address or not ask_servers(wizard, name, address):
        return
    wizard.keys[f"mail.{name}.channel"] = "true"
    theirs = ask_address(wizard, Text("Your own address, from which you write to it (Enter: none yet)"))
    if not theirs:
        wizard.say(Text('Nobody may write to it yet. Later: [people.NAME] mail = ["…"]'))
        return
    if theirs.casefold() == address.casefold():
        wizard.say(Text("This is Rumi's own address: mails from there are never answered."))
        return
    person = next(
        (
            one
            for one, section in settings.people.items()
            if theirs.casefold() in map(str.casefold, section.mail)
        ),
        _name_from(theirs),
    )
    section = settings.people.get(person)
    addresses = dict.fromkeys((*(() if section is None else section.mail), theirs))
    wizard.keys[f"people.{person}.mail"] = json.dumps(list(addresses))
    if section is None and not settings.people:
        wizard.keys[f"people.{person}.role"] = "admin"
    wizard.say(Text("{address} may write as the person {person}.", address=theirs, person=person))


def _name_from(address: str) -> str:
    """Return a name for a person with this address."""
    name = re.sub(r"[^a-z0-9]+", "-", address.casefold().partition("@")[0]).strip("-")
    return "person" if name in ("", "local") else name[:MOST_NAME_CHARS]
