"""Texts of the Matrix channel: what its people read in rooms, and what operators read about it."""

from rumi.texts import Language, gettext


def stranger(language: Language, user: str) -> str:
    """Tell users who are not on the list their id, so that they can be added."""
    return gettext(
        language,
        "I don't know you yet. Your id is {user}; ask the owner to add it to users in [matrix.NAME].",
        user=user,
    )


def sent_again(language: Language) -> str:
    """Mark a message that may reach the room twice."""
    return gettext(language, "🔁 Sent again: the homeserver did not confirm that it had arrived.")


def how_to_answer(language: Language) -> str:
    """Say below a question how it is answered."""
    return gettext(language, "React with ✅ or ❌, or write yes or no.")


def unsupported(language: Language) -> str:
    """Say that Rumi does not support a kind of message."""
    return gettext(
        language,
        "I cannot do anything with this kind of message. Send me text, a picture, a file or a voice message.",
    )


def deaf(language: Language) -> str:
    """Say that voice messages cannot be transcribed."""
    return gettext(
        language,
        "I cannot listen to voice messages: there is no [voice] server, and no GROQ_API_KEY. "
        "Please write to me.",
    )


def too_large(language: Language, name: str, limit_mb: float) -> str:
    """Say that a file is too large."""
    return gettext(
        language,
        "The file {name} is too large: I can take up to {limit_mb} MB.",
        name=name,
        limit_mb=f"{limit_mb:g}",
    )


def encrypted(language: Language) -> str:
    """Say that messages in an encrypted room cannot be read."""
    return gettext(
        language,
        "I can't read this room, because its messages are encrypted. Please invite me into a room without "
        "encryption.",
    )


def encrypted_workers(language: Language) -> str:
    """Say that several workers cannot read messages in an encrypted room."""
    return gettext(
        language,
        "I can't read this room, because its messages are encrypted, and I run as several workers. Please "
        "invite me into a room without encryption.",
    )


def unread(language: Language) -> str:
    """Say that the key of an encrypted message did not come."""
    return gettext(
        language,
        "🔑 I couldn't read a message here: your client has not given me its key. Please write it again.",
    )


def new_device(language: Language, user: str, device: str) -> str:
    """Say that a user has a new device, which can read the room from now on."""
    return gettext(
        language,
        "🔑 {user} has a new device, which can read this room from now on: {device}. If it is not yours, "
        "remove it in your client's settings.",
        user=user,
        device=device,
    )


def kept_at_server(language: Language) -> str:
    """Tell a person that no message is lost while nothing can be stored."""
    return gettext(
        language,
        "⚠️ I cannot store messages right now. The homeserver keeps yours for me, and I will answer it when I "
        "can. /stop works.",
    )


def serving(language: Language, user: str, users: int) -> str:
    """Say at the start which account is served, and how many people may talk to it."""
    if not users:
        return gettext(
            language,
            'Serving {user}. Nobody may talk to it yet: put ids into [matrix.NAME] users = ["…"]. '
            "Ctrl-C ends me.",
            user=user,
        )
    return gettext(
        language,
        "Serving {user}. People who may talk to it: {users}. Ctrl-C ends me.",
        user=user,
        users=users,
    )


def unreachable(language: Language, user: str) -> str:
    """Say at the start that the homeserver does not answer."""
    return gettext(
        language, "The homeserver of {user} does not answer yet; I keep trying. Ctrl-C ends me.", user=user
    )
