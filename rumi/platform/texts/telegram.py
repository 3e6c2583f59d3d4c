"""Texts that the Telegram bot sends, and texts that `rumi telegram` prints."""

from rumi.texts import Language, Text, gettext


def stranger(language: Language, user: int) -> str:
    """Tell users who are not on the list their Telegram id, so that they can be added."""
    return gettext(
        language,
        "I don't know you yet. Your id is {user}; ask the owner to add it to allowed_users.",
        user=user,
    )


def unsupported(language: Language, what: str) -> str:
    """Say that Rumi does not support messages of the kind `what`, for example `sticker`."""
    return gettext(
        language,
        "I cannot do anything with {kind}. Send me text, a photo, a file or a voice message.",
        kind=_KINDS_OF_MESSAGES.get(what, Text("this kind of message")),
    )


_KINDS_OF_MESSAGES = {
    "sticker": Text("a sticker"),
    "animation": Text("an animation"),
    "video_note": Text("a video message"),
    "poll": Text("a poll"),
    "location": Text("a location"),
    "contact": Text("a contact"),
    "dice": Text("a die"),
    "game": Text("a game"),
    "story": Text("a story"),
}


def file_too_large(language: Language, name: str, limit_mb: float) -> str:
    """Say that a file is larger than the limit."""
    return gettext(
        language,
        "The file {name} is too large: I can take up to {limit_mb} MB.",
        name=name,
        limit_mb=f"{limit_mb:g}",
    )


def no_transcription(language: Language) -> str:
    """Say that voice messages cannot be transcribed."""
    return gettext(
        language, "I cannot listen to voice messages: there is no GROQ_API_KEY. Please write to me."
    )


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


def thinking(language: Language) -> str:
    """Return the text that is shown until the first word of an answer arrives."""
    return gettext(language, "💭 thinking…")


def serving(language: Language, bot: str, users: int) -> str:
    """Say that the bot runs, and how many `users` may talk to it.

    `bot` is the bot's name; it is empty while Telegram cannot be reached.
    """
    if not bot:
        return gettext(language, "Telegram does not answer yet; I keep trying. Ctrl-C ends me.")
    return gettext(
        language, "Serving @{bot}. People who may talk to it: {users}. Ctrl-C ends me.", bot=bot, users=users
    )


def nobody_allowed(language: Language, section: str) -> str:
    """Say that the list of allowed users in the configuration's `section` is empty."""
    return gettext(
        language,
        "Nobody may talk to it yet. Write to the bot: it tells you your id. Put that into "
        "config.toml: [{section}] allowed_users = [YOUR_ID]",
        section=section,
    )


def winding_down(language: Language, patience_s: float) -> str:
    """Say that the program is about to end."""
    return gettext(
        language,
        "Ending: waiting up to {patience_s} s for what is running. Ctrl-C again cuts it short.",
        patience_s=f"{patience_s:.0f}",
    )


def answer_button(language: Language, yes: bool) -> str:
    """Return the text of a button below a question."""
    return gettext(language, "✅ Yes") if yes else "❌ No"


def button_received(language: Language) -> str:
    """Confirm that a button press was received."""
    return gettext(language, "Received.")


def question_closed(language: Language) -> str:
    """Say that a pressed button belongs to a question that is no longer open."""
    return gettext(language, "This question is no longer open.")


def not_your_question(language: Language) -> str:
    """Say that a pressed button belongs to a question for another person."""
    return gettext(language, "This question is for somebody else.")


def question_unshown(language: Language) -> str:
    """Say that a question is not asked, because the file with its full text cannot be sent."""
    return gettext(
        language,
        "I can't show you all of what I was going to ask: Telegram does not take the file. So I "
        "don't ask, and it is not done.",
    )


def left_out(language: Language, characters: int) -> str:
    """Return the note that replaces the middle of a shortened question. A file has the full text."""
    return gettext(
        language,
        "… ({characters} characters are left out here: they are in the file above) …",
        characters=characters,
    )
