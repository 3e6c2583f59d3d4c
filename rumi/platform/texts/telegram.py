"""Texts that the Telegram bot sends, and texts that `rumi serve` prints."""

from rumi.texts import Language, Text, gettext


def stranger(language: Language, user: int) -> str:
    """Tell users who are not on the list their Telegram id, so that they can be added."""
    return gettext(
        language,
        "I don't know you yet. Your id is {user}; ask the owner to add it to allowed_users.",
        user=user,
    )


def anonymous(language: Language) -> str:
    """Tell anonymous admins, and people who write as a channel, why the bot does not answer them."""
    return gettext(
        language,
        "I can't see who wrote this, because it was sent in the name of a group or a channel. Send it as "
        "yourself: tap the picture beside the text field, or turn off “Remain anonymous” in your rights "
        "as an admin.",
    )


def sent_again(language: Language) -> str:
    """Mark a message that may reach the chat twice, because Telegram did not confirm the first one."""
    return gettext(language, "🔁 Sent again: Telegram did not confirm that it had arrived.")


def unsupported(language: Language, what: str) -> str:
    """Say that Rumi does not support messages of the kind `what`, for example `sticker`."""
    return gettext(
        language,
        "I cannot do anything with {kind}. Send me text, a photo, a file or a voice message.",
        kind=_KINDS_OF_MESSAGES.get(what, Text("this kind of message")),
    )


_KINDS_OF_MESSAGES = {
    "sticker": Text("a sticker"),
    "poll": Text("a poll"),
    "location": Text("a location"),
    "contact": Text("a contact"),
    "dice": Text("a die"),
    "game": Text("a game"),
    "story": Text("a story"),
}


def not_brought(language: Language, why: str) -> str:
    """Say that an attachment of a message could not be fetched."""
    why = why.strip().rstrip(".")
    return gettext(language, "❌ I could not get what you sent: {why}. Send /retry to try again.", why=why)


def tool_runs(language: Language, what: str, tool: str = "") -> str:
    """Return the line below a streamed answer while a tool runs; for a file tool, `what` is the file."""
    match tool:
        case "read_file":
            return gettext(language, "📖 reading: {what}", what=what)
        case "edit_file":
            return gettext(language, "✏️ editing: {what}", what=what)
        case "write_file":
            return gettext(language, "✏️ writing: {what}", what=what)
        case _:
            return gettext(language, "🔧 working: {what}", what=what)


def serving(language: Language, bot: str, users: int) -> str:
    """Say that the bot runs, and how many `users` may talk to it.

    `bot` is the bot's name; it is empty while Telegram cannot be reached.
    """
    if not bot:
        return gettext(language, "Telegram does not answer yet; I keep trying. Ctrl-C ends me.")
    return gettext(
        language, "Serving @{bot}. People who may talk to it: {users}. Ctrl-C ends me.", bot=bot, users=users
    )


def deaf_in_groups(name: str) -> Text:
    """Say that Telegram keeps from the bot what a group's settings want it to hear."""
    return Text(
        'a group has listen = "all", and Telegram keeps other messages of groups from @{name}', name=name
    )


HEAR_ALL = Text(
    "Switch the bot's privacy mode off with @BotFather (/setprivacy), then remove the bot from the group and "
    "add it again; or make the bot an admin of the group."
)
"""What to do about a bot that is `deaf_in_groups`."""


def answer_button(language: Language, yes: bool) -> str:
    """Return the text of a button below a question."""
    return gettext(language, "✅ Yes") if yes else "❌ No"


def question_closed(language: Language) -> str:
    """Say that a pressed button belongs to a question that is no longer open."""
    return gettext(language, "This question is no longer open.")
