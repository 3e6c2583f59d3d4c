"""Texts that the Telegram bot sends, and texts that `rumi telegram` prints."""

from rumi.platform.texts.language import Language, pick


def stranger(language: Language, user: int) -> str:
    """Tell users who are not on the list their Telegram id, so that they can be added."""
    return pick(
        language,
        f"No te conozco todavía. Tu id es {user}; pedile al dueño que lo agregue a allowed_users.",
        f"I don't know you yet. Your id is {user}; ask the owner to add it to allowed_users.",
    )


def unsupported(language: Language, what: str) -> str:
    """Say that Rumi does not support messages of the kind `what`, for example `sticker`."""
    es, en = _KINDS_OF_MESSAGES.get(what, ("este tipo de mensaje", "this kind of message"))
    return pick(
        language,
        f"No sé qué hacer con {es}. Mandame texto, una foto, un archivo o un mensaje de voz.",
        f"I cannot do anything with {en}. Send me text, a photo, a file or a voice message.",
    )


_KINDS_OF_MESSAGES = {
    "sticker": ("un sticker", "a sticker"),
    "animation": ("una animación", "an animation"),
    "video_note": ("un mensaje de video", "a video message"),
    "poll": ("una encuesta", "a poll"),
    "location": ("una ubicación", "a location"),
    "contact": ("un contacto", "a contact"),
    "dice": ("un dado", "a die"),
    "game": ("un juego", "a game"),
    "story": ("una historia", "a story"),
}


def file_too_large(language: Language, name: str, limit_mb: float) -> str:
    """Say that a file is larger than the limit."""
    return pick(
        language,
        f"El archivo {name} es demasiado grande: puedo recibir hasta {limit_mb:g} MB.",
        f"The file {name} is too large: I can take up to {limit_mb:g} MB.",
    )


def no_transcription(language: Language) -> str:
    """Say that voice messages cannot be transcribed."""
    return pick(
        language,
        "No puedo escuchar mensajes de voz: falta GROQ_API_KEY. Escribime, por favor.",
        "I cannot listen to voice messages: there is no GROQ_API_KEY. Please write to me.",
    )


def not_brought(language: Language, why: str) -> str:
    """Say that an attachment of a message could not be fetched."""
    why = why.strip().rstrip(".")
    return pick(
        language,
        f"❌ No pude recibir lo que mandaste: {why}. Mandá /retry para intentarlo de nuevo.",
        f"❌ I could not get what you sent: {why}. Send /retry to try again.",
    )


def tool_runs(language: Language, what: str, tool: str = "") -> str:
    """Return the line below a streamed answer while a tool runs; for a file tool, `what` is the file."""
    match tool:
        case "read_file":
            return pick(language, f"📖 leyendo: {what}", f"📖 reading: {what}")
        case "edit_file":
            return pick(language, f"✏️ editando: {what}", f"✏️ editing: {what}")
        case "write_file":
            return pick(language, f"✏️ escribiendo: {what}", f"✏️ writing: {what}")
        case _:
            return pick(language, f"🔧 trabajando: {what}", f"🔧 working: {what}")


def thinking(language: Language) -> str:
    """Return the text that is shown until the first word of an answer arrives."""
    return pick(language, "💭 pensando…", "💭 thinking…")


def serving(language: Language, bot: str, users: int) -> str:
    """Say that the bot runs, and how many `users` may talk to it.

    `bot` is the bot's name; it is empty while Telegram cannot be reached.
    """
    if not bot:
        return pick(
            language,
            "Telegram no responde todavía; lo sigo intentando. Con Ctrl-C termino.",
            "Telegram does not answer yet; I keep trying. Ctrl-C ends me.",
        )
    return pick(
        language,
        f"Atiendo a @{bot}. Personas que pueden hablarle: {users}. Con Ctrl-C termino.",
        f"Serving @{bot}. People who may talk to it: {users}. Ctrl-C ends me.",
    )


def nobody_allowed(language: Language, section: str) -> str:
    """Say that the list of allowed users in the configuration's `section` is empty."""
    return pick(
        language,
        "Nadie puede hablarle todavía. Escribile al bot: te dice tu id. Ponelo en config.toml: "
        f"[{section}] allowed_users = [TU_ID]",
        "Nobody may talk to it yet. Write to the bot: it tells you your id. Put that into config.toml: "
        f"[{section}] allowed_users = [YOUR_ID]",
    )


def winding_down(language: Language, patience_s: float) -> str:
    """Say that the program is about to end."""
    return pick(
        language,
        f"Termino: espero hasta {patience_s:.0f} s a que acabe lo que está en marcha. Otro Ctrl-C lo corta.",
        f"Ending: waiting up to {patience_s:.0f} s for what is running. Ctrl-C again cuts it short.",
    )


def answer_button(language: Language, yes: bool) -> str:
    """Return the text of a button below a question."""
    return pick(language, "✅ Sí", "✅ Yes") if yes else "❌ No"


def button_received(language: Language) -> str:
    """Confirm that a button press was received."""
    return pick(language, "Recibido.", "Received.")


def question_closed(language: Language) -> str:
    """Say that a pressed button belongs to a question that is no longer open."""
    return pick(language, "Esta pregunta ya no está abierta.", "This question is no longer open.")


def not_your_question(language: Language) -> str:
    """Say that a pressed button belongs to a question for another person."""
    return pick(language, "Esta pregunta es para otra persona.", "This question is for somebody else.")


def question_unshown(language: Language) -> str:
    """Say that a question is not asked, because the file with its full text cannot be sent."""
    return pick(
        language,
        "No puedo mostrarte entero lo que iba a preguntar: Telegram no acepta el archivo. "
        "Así que no lo pregunto, y no se hace.",
        "I can't show you all of what I was going to ask: Telegram does not take the file. "
        "So I don't ask, and it is not done.",
    )


def left_out(language: Language, characters: int) -> str:
    """Return the note that replaces the middle of a shortened question. A file has the full text."""
    return pick(
        language,
        f"… (acá faltan {characters} caracteres: están en el archivo de arriba) …",
        f"… ({characters} characters are left out here: they are in the file above) …",
    )
