"""The questions of `rumi setup` about a mailbox: its address, its servers and its password, all tried."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rumi.cli import run_async
from rumi.cli.printing import echo
from rumi.cli.setup_asking import Asks, say_whose
from rumi.platform.texts.translation import error_text
from rumi.texts import Text

if TYPE_CHECKING:
    from rumi.services.mail.messages import Health


@dataclass(frozen=True, slots=True)
class KnownService:
    """The servers of a mail service, and what its users must know about the password.

    `saves` means that the service itself keeps what was sent.
    """

    imap: str
    smtp: str
    about: Text
    saves: bool = False


_APP_PASSWORD: Final = Text(
    "It needs an app password, not the one of the account. After turning on two-step login, make one at "
    "{where}"
)
_PLAIN: Final = Text("It needs the password of the mailbox; IMAP may have to be turned on in its settings.")

_GMAIL: Final = KnownService(
    "imap.gmail.com:993",
    "smtp.gmail.com:465",
    Text(_APP_PASSWORD, where="https://myaccount.google.com/apppasswords"),
    saves=True,
)
_ICLOUD: Final = KnownService(
    "imap.mail.me.com:993", "smtp.mail.me.com:587", Text(_APP_PASSWORD, where="https://account.apple.com")
)
_OUTLOOK: Final = KnownService(
    "outlook.office365.com:993",
    "smtp-mail.outlook.com:587",
    Text(
        "Outlook, Hotmail and Microsoft 365 accept no passwords for IMAP any more, also no app passwords: "
        "forward the mails to another mailbox, or use a bridge on this machine."
    ),
    saves=True,
)
_YAHOO: Final = KnownService(
    "imap.mail.yahoo.com:993",
    "smtp.mail.yahoo.com:465",
    Text(_APP_PASSWORD, where="https://login.yahoo.com/account/security"),
    saves=True,
)
_PROTON: Final = KnownService(
    "127.0.0.1:1143",
    "127.0.0.1:1025",
    Text("Proton Mail needs its Bridge on this machine: the Bridge shows the password."),
    saves=True,
)

KNOWN: Final = {
    **dict.fromkeys(("gmail.com", "googlemail.com"), _GMAIL),
    **dict.fromkeys(("icloud.com", "me.com", "mac.com"), _ICLOUD),
    **dict.fromkeys(("outlook.com", "hotmail.com", "live.com", "msn.com"), _OUTLOOK),
    **dict.fromkeys(("yahoo.com", "yahoo.es", "yahoo.com.br", "yahoo.com.ar", "ymail.com"), _YAHOO),
    **dict.fromkeys(("proton.me", "protonmail.com", "pm.me"), _PROTON),
    "fastmail.com": KnownService(
        "imap.fastmail.com:993",
        "smtp.fastmail.com:465",
        Text(_APP_PASSWORD, where="https://app.fastmail.com/settings/security"),
    ),
    **dict.fromkeys(
        ("gmx.de", "gmx.net", "gmx.at", "gmx.ch"),
        KnownService("imap.gmx.net:993", "mail.gmx.net:465", _PLAIN),
    ),
    "gmx.com": KnownService("imap.gmx.com:993", "mail.gmx.com:465", _PLAIN),
    "web.de": KnownService("imap.web.de:993", "smtp.web.de:587", _PLAIN),
    **dict.fromkeys(
        ("zoho.com", "zohomail.com"),
        KnownService(
            "imap.zoho.com:993",
            "smtp.zoho.com:465",
            Text(_APP_PASSWORD, where="https://accounts.zoho.com"),
            saves=True,
        ),
    ),
    "yandex.com": KnownService(
        "imap.yandex.com:993",
        "smtp.yandex.com:465",
        Text(_APP_PASSWORD, where="https://id.yandex.com/security/app-passwords"),
        saves=True,
    ),
    "mailbox.org": KnownService("imap.mailbox.org:993", "smtp.mailbox.org:465", _PLAIN),
    "posteo.de": KnownService("posteo.de:993", "posteo.de:465", _PLAIN),
}
"""Mail services by the domains of their addresses."""


def guess(address: str) -> KnownService:
    """Return the servers of an address: those of a known service, else the usual names at its domain."""
    domain = address.rpartition("@")[2].casefold()
    usual = KnownService(f"imap.{domain}:993", f"smtp.{domain}:465", _PLAIN)
    return KNOWN.get(domain, usual)


def ask_mail(wizard: Asks) -> None:
    """Ask for a mailbox, try both servers without sending anything, and note what is to be stored."""
    name = next((known for known, box in wizard.loaded.settings.mail.items() if not box.channel), "")
    before = wizard.loaded.settings.mail[name].address if name else ""
    if not (address := ask_address(wizard, Text("The address of the mailbox (Enter: none)"), before)):
        return
    name = name or re.sub(r"[^a-z0-9]+", "-", address.casefold().rpartition("@")[2]).strip("-")[:32] or "mail"
    if ask_servers(wizard, name, address):
        say_whose(wizard, "mail", name)


def ask_address(wizard: Asks, question: Text, before: str = "") -> str:
    """Ask for an address until it is one; empty for none."""
    while address := wizard.ask_line(question, before):
        if re.fullmatch(r"[^@\s<>]+@[^@\s<>]+\.[^@\s<>]+", address):
            break
        wizard.say(Text("This is an address, such as ana@example.org."))
    return address


def ask_servers(wizard: Asks, name: str, address: str) -> bool:
    """Ask for the servers and the password of an address; return False if it is left out."""
    service = guess(address)
    wizard.say(service.about)
    variable = f"MAIL_{re.sub(r'[^A-Z0-9]+', '_', name.upper())}_PASSWORD"
    imap, smtp, user = service.imap, service.smtp, address
    while True:
        imap = wizard.ask_line(Text("The server for reading, host:port"), imap)
        smtp = wizard.ask_line(Text("The server for sending, host:port"), smtp)
        user = wizard.ask_line(Text("The user's name there"), user)
        password = wizard.ask_line(
            Text("The password, or !command that prints it (Enter: leave this out)"), hidden=True
        )
        if not password:
            return False
        section = {"address": address, "imap": imap, "smtp": smtp, "user": user}
        if _tried(wizard, name, section, password):
            break
    wizard.keys |= {f"mail.{name}.{key}": value for key, value in section.items() if key != "user"}
    if user != address:
        wizard.keys[f"mail.{name}.user"] = user
    if service.saves:
        wizard.keys[f"mail.{name}.save_sent"] = "false"
    if password.startswith("!"):
        wizard.keys[f"mail.{name}.password"] = password
    else:
        wizard.keys[f"mail.{name}.password"] = f"${variable}"
        wizard.secrets[variable] = password
    return True


def _tried(wizard: Asks, name: str, section: dict[str, str], password: str) -> bool:
    """Log in at both servers; return True if the answers are to be kept."""
    from pydantic import ValidationError

    from rumi.errors import ConfigError, RumiError, single
    from rumi.platform.config.commands import printed
    from rumi.platform.config.schema import MailSection
    from rumi.platform.config.secrets import mail_key

    wizard.say(Text("Trying it out …"))
    try:
        checked = MailSection.model_validate(section)
        plain = run_async(printed, password[1:], mail_key(name)) if password.startswith("!") else password
        health = run_async(_check, name, checked, plain)
    except ValidationError:
        wizard.say(Text("A server is a host and a port, such as imap.example.org:993."))
        return False
    except Exception as error:
        known = single(error)
        if not isinstance(known, RumiError):
            raise
        echo(f"✗ {error_text(wizard.language, known)}")
        refused = isinstance(known, ConfigError) or getattr(known, "kind", "") == "login"
        return not refused and wizard.keep_anyway()
    wizard.say(
        Text("✓ both servers accept the login; folders: {folders}", folders=folders_in_words(health, 6))
    )
    return True


async def _check(name: str, section: object, password: str) -> "Health":
    from rumi.platform.config.schema import MailSection
    from rumi.services.mail.client import Mailbox

    assert isinstance(section, MailSection)
    return await Mailbox(name, section, password).check()


def folders_in_words(health: "Health", most: int) -> str:
    """Return the names of the first folders, and how many more there are."""
    names = [folder.name for folder in health.folders if folder.selectable]
    shown = ", ".join(names[:most])
    return f"{shown}, … +{len(names) - most}" if len(names) > most else shown
