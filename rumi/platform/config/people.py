"""Checks that people, roles, calendars and mailboxes fit together, and lists the users of a bot."""

from typing import Final

from rumi.errors import ConfigError
from rumi.platform.chat_ids import BUILT_IN as BUILT_IN_CHATS
from rumi.platform.chat_ids import matrix_number
from rumi.platform.config.schema import MailSection, PersonSection, Settings

BUILT_IN: Final = ("admin", "member", "guest")
"""Built-in roles, which exist without a section `[roles.NAME]`."""

MOST_NAME_CHARS: Final = 40
"""Maximum length of the name of a person who has mail addresses, because chat ids have a limit too."""

RESERVED: Final = "local"
"""The name of the home's owner. No section `[people.NAME]` may use it."""


def check_people(settings: Settings) -> None:
    """Check that each role exists, and that each Telegram id and Matrix user belongs to only one person.

    Raises:
        ConfigError: A section is not valid; the error names the section.
    """
    if "admin" in settings.roles:
        raise ConfigError("[roles.admin] is not allowed.", "An admin may do everything; choose another name.")
    if RESERVED in settings.people:
        raise ConfigError("[people.local] is not allowed.", "local is the owner of this home.")
    known = tuple(dict.fromkeys((*BUILT_IN, *settings.roles)))
    roles = {
        **{f"people.{name}": person.role for name, person in settings.people.items()},
        **{f"plugins.{name}": plugin.role for name, plugin in settings.plugins.items()},
    }
    for section, role in roles.items():
        if role not in known:
            raise ConfigError(
                "{section}.role = {role} is not a role.",
                "The roles are {known}; another one needs a section [roles.{role}].",
                section=section,
                role=role,
                known=", ".join(known),
            )
    whose: dict[int, str] = {}
    for name, person in settings.people.items():
        for id in person.telegram:
            if whose.setdefault(id, name) != name:
                raise ConfigError(
                    "The Telegram id {id} belongs to {whose} and to {name}.",
                    "Remove it from one of the two sections.",
                    id=id,
                    whose=whose[id],
                    name=name,
                )
    owners: dict[str, str] = {}
    for name, person in settings.people.items():
        for user in person.matrix:
            if owners.setdefault(user, name) != name:
                raise ConfigError(
                    "The Matrix user {user} belongs to {whose} and to {name}.",
                    "Remove it from one of the two sections.",
                    user=user,
                    whose=owners[user],
                    name=name,
                )
    accounts: dict[str, str] = {}
    for name, account in settings.matrix.items():
        if accounts.setdefault(account.user, name) != name:
            raise ConfigError(
                "matrix.{first} and matrix.{second} are the same account.",
                "Remove one of the two sections.",
                first=accounts[account.user],
                second=name,
            )


def check_services(settings: Settings) -> None:
    """Check that calendars, mailboxes and passwords belong to people that exist, one mailbox to each.

    Raises:
        ConfigError: A section is not valid; the error names the section.
    """
    sections: dict[str, tuple[str, ...]] = {
        **{f"calendars.{name}": calendar.people for name, calendar in settings.calendars.items()},
        **{f"mail.{name}": mailbox.people for name, mailbox in settings.mail.items()},
        **{f"browser.passwords.{name}": one.people for name, one in settings.browser.passwords.items()},
    }
    for section, people in sections.items():
        for person in people:
            if person != RESERVED and person not in settings.people:
                raise ConfigError(
                    "{section}.people names {person}, who is not in [people].",
                    "Add a section [people.{person}], or write local for the owner of this home.",
                    section=section,
                    person=person,
                )
    whose: dict[str, str] = {}
    for name, mailbox in settings.mail.items():
        for person in () if mailbox.channel else mailbox.people or (RESERVED,):
            if whose.setdefault(person, name) != name:
                raise ConfigError(
                    "mail.{whose} and mail.{name} both belong to {person}.",
                    "Each person has one mailbox: name another person in one of the two sections.",
                    whose=whose[person],
                    name=name,
                    person=person,
                )
    channels = [name for name, mailbox in settings.mail.items() if mailbox.channel]
    if len(channels) > 1:
        raise ConfigError(
            "mail.{first} and mail.{second} both have channel = true.",
            "Rumi has one mailbox of its own: remove it from one of the two sections.",
            first=channels[0],
            second=channels[1],
        )
    _check_mail_triggers(settings)
    addresses: dict[str, str] = {}
    for name, member in settings.people.items():
        if member.mail and ("_" in name or len(name) > MOST_NAME_CHARS):
            raise ConfigError(
                "The name people.{name} can't be used with mail.",
                "Choose one of at most {most} letters, digits and -: names of chats begin with it.",
                name=name,
                most=MOST_NAME_CHARS,
            )
        for address in member.mail:
            if addresses.setdefault(address.casefold(), name) != name:
                raise ConfigError(
                    "The mail address {address} belongs to {whose} and to {name}.",
                    "Remove it from one of the two sections.",
                    address=address,
                    whose=addresses[address.casefold()],
                    name=name,
                )


def channel_mailbox(settings: Settings) -> tuple[str, MailSection] | None:
    """Return the name and the section of Rumi's own mailbox; None if there is none."""
    return next(((name, box) for name, box in settings.mail.items() if box.channel), None)


def _check_mail_triggers(settings: Settings) -> None:
    """Check that each trigger's mailbox exists, and belongs to the owner of the trigger's chat."""
    for name, trigger in settings.triggers.items():
        if trigger.mail is None:
            continue
        mailbox = settings.mail.get(trigger.mail)
        if mailbox is None or mailbox.channel:
            raise ConfigError(
                "triggers.{name}.mail names {mailbox}, which is not a mailbox of a person.",
                "Add a section [mail.{mailbox}] for it, without channel = true.",
                name=name,
                mailbox=trigger.mail,
            )
        owner = owner_in(settings, trigger.chat)
        if owner not in (mailbox.people or (RESERVED,)):
            raise ConfigError(
                "triggers.{name} would show mails of mail.{mailbox} in {chat}, a chat of somebody else.",
                "Name a chat of the person in mail.{mailbox}.people.",
                name=name,
                mailbox=trigger.mail,
                chat=trigger.chat,
            )


def owner_in(settings: Settings, chat: str) -> str:
    """Return the name of the person to whom a chat belongs: `RESERVED` for the owner, empty for nobody.

    A group is nobody's.
    """
    if BUILT_IN_CHATS.owner_of(chat) == RESERVED:
        return RESERVED
    if name := BUILT_IN_CHATS.person_of(chat):
        return name if name in settings.people and settings.people[name].mail else ""
    user = BUILT_IN_CHATS.user_of(chat)
    return "" if user is None else everybody(settings).get(user, ("", ""))[0]


def everybody(settings: Settings) -> dict[int, tuple[str, str]]:
    """Map the number of each user of Telegram bots and Matrix accounts to the person's name and role."""
    on_matrix = {matrix_number(user): found for user, found in matrix_users(settings).items()}
    return {**listed(settings), **on_matrix}


def numbers_of(person: PersonSection) -> tuple[int, ...]:
    """Return the numbers of a person's users on Telegram and Matrix."""
    return (*person.telegram, *map(matrix_number, person.matrix))


def matrix_users(settings: Settings, account: str | None = None) -> dict[str, tuple[str, str]]:
    """Map each Matrix user of an account to the person's name ("" if not configured) and role.

    A section of `[people]` takes precedence over `users`. None selects the users of all accounts.
    """
    asked = settings.matrix.values() if account is None else (settings.matrix[account],)
    found = {user: ("", "member") for section in asked for user in section.users}
    for name, person in settings.people.items():
        found |= dict.fromkeys(person.matrix, (name, person.role))
    return found


def listed(settings: Settings, bot: str | None = None) -> dict[int, tuple[str, str]]:
    """Map the Telegram id of each user of a bot to the person's name ("" if not configured) and role.

    A section of `[people]` takes precedence over `telegram.admins`, which takes precedence over
    `allowed_users`. `bot` is the bot's name, empty for the first bot; None selects the users of all bots.
    """
    telegram = settings.telegram
    asked = ("", *telegram.bots) if bot is None else (bot,)
    users = {user for bot_name in asked for user in _users(settings, bot_name)}
    found = {
        **dict.fromkeys(users, ("", "member")),
        **dict.fromkeys(telegram.admins, ("", "admin")),
    }
    for name, person in settings.people.items():
        found |= dict.fromkeys(person.telegram, (name, person.role))
    return found


def _users(settings: Settings, bot: str) -> tuple[int, ...]:
    telegram = settings.telegram
    own = telegram.bots[bot].allowed_users if bot else None
    return telegram.allowed_users if own is None else own
