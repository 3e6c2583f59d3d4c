"""What `rumi doctor` finds, and how to mend it. Names of keys, files and commands are the same in both."""

from typing import Final, NamedTuple

from rumi.texts.language import Language, pick


class Sentence(NamedTuple):
    """One text in both languages, with places for values."""

    es: str
    en: str

    def said(self, language: Language, **values: object) -> str:
        """The text in that language."""
        return pick(language, self.es, self.en).format(**values)


# Any check.
LATE: Final = Sentence("no hubo respuesta en {seconds} s", "no answer within {seconds} s")
MEND_LATE: Final = Sentence(
    "Algo se cuelga: mirá la carga de la máquina y probá de nuevo.",
    "Something hangs: look at the machine's load, then try again.",
)
MEND_READING: Final = Sentence(
    "Fijate en el disco, y de quién es ese archivo y con qué permisos.",
    "Look at the disk, and at the owner and mode of that file.",
)
UNFORESEEN: Final = Sentence("no se pudo revisar: {error}", "it could not be checked: {error}")
MEND_UNFORESEEN: Final = Sentence(
    "Es una falla de Rumi. Contala con lo que dice: rumi --debug doctor",
    "That is a fault of Rumi's. Report it, with what this says: rumi --debug doctor",
)

# The machine.
DISK_FREE: Final = Sentence("{free} libres", "{free} free")
FEW_FILES: Final = Sentence("solo entran {files} archivos más", "only {files} files more fit on it")
MAKE_ROOM: Final = Sentence(
    "Hacé lugar en el disco de {folder}, o poné RUMI_HOME en una carpeta de otro.",
    "Make room on the disk of {folder}, or set RUMI_HOME to a folder on another one.",
)
CLOCK_BEHIND: Final = Sentence(
    "dice {told}, y acá hay archivos del {newest}", "it says {told}, and files here are of {newest}"
)
CLOCK_OFF: Final = Sentence(
    "está {seconds} s {way} que el del servidor del modelo", "{seconds} s {way} the model server's"
)
CLOCK_AHEAD: Final = Sentence("más adelantado", "ahead of")
CLOCK_LATE: Final = Sentence("más atrasado", "behind")
CLOCK_SAME: Final = Sentence(
    "como el del servidor del modelo, al minuto", "as the model server's, to the minute"
)
SET_CLOCK: Final = Sentence(
    "Ponelo en hora: timedatectl set-ntp true. Lo necesitan certificados, sesiones y vencimientos.",
    "Set the clock: timedatectl set-ntp true. Certificates, sessions and due dates need it.",
)
TERMINAL: Final = Sentence("UTF-8; LANG es {locale}", "UTF-8; LANG is {locale}")
NO_LOCALE: Final = Sentence("(nada)", "not set")
NO_UTF8: Final = Sentence(
    "escribe en {encoding}, no en UTF-8: se pierden los acentos",
    "it takes {encoding}, no UTF-8: accents are lost",
)
PROGRAMS: Final = Sentence("están todos los programas permitidos", "all allowed programs are here")
PROGRAMS_MISSING: Final = Sentence(
    "a esta máquina le faltan {names}, y también a un sandbox hecho con ella",
    "this host lacks {names}, and so does a sandbox made from it",
)
MEND_PROGRAMS: Final = Sentence(
    "Instalalos, y después: rumi sandbox build", "Install them, then: rumi sandbox build"
)

# The home.
ANOTHERS_HOME: Final = Sentence(
    "{home} es del usuario {owner}, y este es el usuario {user}; no miré adentro",
    "{home} belongs to user {owner}, and this is user {user}; nothing in it was looked at",
)
MEND_ANOTHERS_HOME: Final = Sentence(
    "Corré Rumi como su dueño, o poné RUMI_HOME en una carpeta tuya.",
    "Run Rumi as its owner, or set RUMI_HOME to a folder you own.",
)
OPEN_HOME: Final = Sentence(
    "otros pueden leer {home} (modo {mode})", "{home} can be read by others (mode {mode})"
)
CLOSED_HOME: Final = Sentence(
    "Otros podían leer {home}: ahora es solo de su dueño (modo 700).",
    "Others could read {home}: it is its owner's alone now (mode 700).",
)
WRITABLE_HOME: Final = Sentence(
    "otros pueden escribir en {home} (modo {mode})", "{home} can be written by others (mode {mode})"
)
MEND_WRITABLE_HOME: Final = Sentence(
    "Fijate que no haya nada de otro adentro, y después: chmod 700 {folder}",
    "Make sure that nothing in it comes from somebody else, then: chmod 700 {folder}",
)
LINK_IN_HOME: Final = Sentence(
    "{path} es un enlace: lo que Rumi escribe ahí iría a {target}",
    "{path} is a link: what Rumi writes there would go to {target}",
)
MEND_LINK_IN_HOME: Final = Sentence(
    "Sacalo: rm {path}. Si tiene que estar en otro disco, montá ese disco ahí.",
    "Remove it: rm {path}. If it has to be on another disk, mount that disk there.",
)
UNWRITABLE_HOME: Final = Sentence("no se puede escribir en {home}", "{home} cannot be written")
MEND_UNWRITABLE_HOME: Final = Sentence(
    "Poné RUMI_HOME en una carpeta tuya.", "Set RUMI_HOME to a folder you own."
)
PERMISSIONS: Final = Sentence(
    "lo que hay en la carpeta es solo de su dueño", "what is in the home is its owner's alone"
)
FOREIGN_FILES: Final = Sentence(
    "en {home} hay archivos de otro usuario: {names}", "{home} has files of another user: {names}"
)
MEND_FOREIGN_FILES: Final = Sentence("Como root: chown -R {change}", "As root: chown -R {change}")
OPEN_FILES: Final = Sentence("abiertos a otros: {names}", "open to others: {names}")
AND_MORE: Final = Sentence(" y {count} más", " and {count} more")

# The databases.
NOT_THERE: Final = Sentence("todavía no existe", "not there yet")
NO_FILE: Final = Sentence("no es un archivo", "it is no file")
MEND_NO_FILE: Final = Sentence("Pará Rumi y movelo a otro lado.", "Stop Rumi and move it away.")
NEWER: Final = Sentence(
    "lo hizo un Rumi más nuevo (esquema {found}; este conoce hasta el {known})",
    "a newer Rumi made it (schema {found}, this one knows {known})",
)
MEND_NEWER: Final = Sentence(
    "Usá el programa más nuevo, u otro RUMI_HOME.", "Use the newer program, or another RUMI_HOME."
)
UNREADABLE: Final = Sentence("no se puede leer: {error}", "cannot be read: {error}")
MEND_UNREADABLE: Final = Sentence(
    "Hacé lugar en el disco, fijate de quién es el archivo y sus permisos, y probá de nuevo.",
    "Make room on the disk and look at the file's owner and mode, then try again.",
)
SOUND: Final = Sentence("{size}, sano, esquema {version}", "{size}, sound, schema {version}")
SOUND_OLDER: Final = Sentence(
    "{size}, sano, de esquema {version}: el próximo arranque lo lleva al {known}",
    "{size}, sound, of schema {version}: the next start brings it to {known}",
)
SOUND_IN_PART: Final = Sentence(
    "{size}, sin daños en {seconds} s, que no alcanzaron para todo",
    "{size}, no damage found in {seconds} s, which was not all of it",
)
DAMAGED: Final = Sentence("dañado: {error}", "damaged: {error}")
MEND_DAMAGED: Final = Sentence(
    "Pará Rumi, corré esto, y poné en su lugar la copia de un backup (sin ella empieza vacío): {commands}",
    "Stop Rumi, run this, then put a backup's copy in its place (without one it begins empty): {commands}",
)
COPY: Final = Sentence(
    "{name}: la copia de antes de la última actualización; borrala cuando todo ande bien",
    "{name}: the copy from before the last upgrade; remove it when all is well",
)

# Who runs.
NOBODY: Final = Sentence("ningún Rumi usa esta carpeta", "no Rumi runs on this home")
RUNNING: Final = Sentence("{holder}, y responde", "{holder}, and it answers")
OTHER_VERSION: Final = Sentence(
    "{holder} es de la versión {theirs}, y esta es la {ours}", "{holder} is version {theirs}, this is {ours}"
)
MEND_OTHER_VERSION: Final = Sentence(
    "Reinicialo para que corra la que está instalada.", "Restart it, so that it is what is installed."
)
NOT_WRITTEN: Final = Sentence(
    "{holder} no puede guardar nada: {why}", "{holder} cannot store anything: {why}"
)
MEND_NOT_WRITTEN: Final = Sentence(
    "Mirá qué ocupa lugar: du -sh {home}/workspace/* {home}/logs | sort -h; y quién usa state.db.",
    "See what takes up room: du -sh {home}/workspace/* {home}/logs | sort -h; and who uses state.db.",
)
SILENT: Final = Sentence("{holder}, y no responde", "{holder}, and it does not answer")
MEND_SILENT: Final = Sentence(
    "Puede estar arrancando o terminando. Si sigue así, mirá logs/rumi.jsonl y reinicialo.",
    "It may be starting or ending. If this lasts, look into logs/rumi.jsonl and start it anew.",
)

# The configuration.
VALID: Final = Sentence(
    "config.toml, el entorno y .env son válidos", "config.toml, environment and .env are valid"
)
NO_KEY: Final = Sentence(
    "{model} necesita GROQ_API_KEY; sin ella se usa el modelo offline",
    "{model} needs GROQ_API_KEY; without it the offline model is used",
)
MEND_NO_KEY: Final = Sentence(
    "Poné GROQ_API_KEY=… en {file}, o en el entorno.", "Put GROQ_API_KEY=… into {file}, or the environment."
)
NO_TOKEN: Final = Sentence(
    "sin token no hay bot; la terminal no lo necesita", "no token, so no bot; the terminal needs none"
)
TOKEN: Final = Sentence(
    "hay un token; {people} pueden hablar con el bot", "a token is set; {people} may talk to the bot"
)
NOBODY_MAY: Final = Sentence(
    "hay un token, y nadie puede hablar con el bot", "there is a token, and nobody may talk to the bot"
)
MEND_NOBODY_MAY: Final = Sentence(
    "Poné sus ids en config.toml: [telegram] allowed_users = [11111111]",
    "Put their ids into config.toml: [telegram] allowed_users = [11111111]",
)
NO_MODEL_FOR_BOT: Final = Sentence(
    "hay un token, y rumi telegram no arranca sin GROQ_API_KEY",
    "there is a token, and rumi telegram does not start without GROQ_API_KEY",
)
SEARCH_LACKS_KEY: Final = Sentence(
    "search.provider es {provider}, y no hay clave para él",
    "search.provider is {provider}, and there is no key for it",
)
MEND_SEARCH_KEY: Final = Sentence(
    "Poné {variable}=… en {file}, o search.provider en auto.",
    "Put {variable}=… into {file}, or set search.provider to auto.",
)
