"""Checks of the mailboxes: login at both servers, and the folders that Rumi uses. Nothing is read or sent."""

from functools import partial

from rumi.cli.doctor.check import Check, Examination
from rumi.platform.config.cascade import Loaded
from rumi.platform.config.commands import read_keys
from rumi.platform.config.secrets import mail_key
from rumi.texts import Text


async def mailboxes(examination: Examination, loaded: Loaded) -> None:
    """Check each configured mailbox; each has a finding of its own."""
    known = await read_keys(loaded)
    for name in known.settings.mail:
        await examination.look(f"mail {name}", partial(_mailbox, known, name))


async def _mailbox(loaded: Loaded, name: str) -> list[Check]:
    from rumi.services.mail.client import Mailbox
    from rumi.services.mail.folders import Use, folder_for, folder_named

    section, title = loaded.settings.mail[name], f"mail {name}"
    if (fault := loaded.secrets.faults.get(mail_key(name))) is not None:
        return [Check(title, "failure", fault.message, fault.advice)]
    if (key := loaded.secrets.keys.get(mail_key(name))) is None:
        found = Text("the mailbox has no password")
        return [Check(title, "failure", found, Text("Set it with: rumi setup"))]
    health = await Mailbox(name, section, key.reveal()).check()
    wanted: dict[Use, str] = {
        "drafts": section.drafts,
        **({"sent": section.sent} if section.save_sent else {}),
    }
    missing = [
        use
        for use, named in wanted.items()
        if (folder_named(named, health.folders) if named else folder_for(use, health.folders)) is None
    ]
    count = len(health.folders)
    if missing:
        found = Text("the login works; there is no folder for: {missing}", missing=", ".join(missing))
        return [
            Check(title, "warning", found, Text("Name it: mail.{name}.drafts, mail.{name}.sent", name=name))
        ]
    if not health.sends:
        return [
            Check(
                title,
                "ok",
                Text("{address} can be read, {count} folders", address=section.address, count=count),
            )
        ]
    found = Text("{address} can be read and sent from, {count} folders", address=section.address, count=count)
    return [Check(title, "ok", found)]
