"""What `rumi doctor` finds about what commands run in, and about servers, and how to mend it."""

from typing import Final

from rumi.texts.doctor import Sentence

# What was left over.
NOTHING_LEFT: Final = Sentence(
    "no quedó nada de esta instalación", "nothing of this installation is left over"
)
IN_USE: Final = Sentence(
    "lo que hay es del Rumi que está corriendo", "what there is belongs to the running Rumi"
)
LEFT_CONTAINER: Final = Sentence("contenedor {name}", "container {name}")
LEFT_PROCESS: Final = Sentence("proceso {name}", "process {name}")
LEFT_GROUP: Final = Sentence("grupo de control {name}", "control group {name}")

# Who commands run as.
OWN_USER: Final = Sentence(
    "los comandos corren como este usuario ({uid})", "commands run as this user ({uid})"
)
USER_APART: Final = Sentence(
    "los comandos corren como {uid}, que no es ninguna cuenta de esta máquina",
    "commands run as {uid}, which no account of this machine has",
)
TO_BE_HANDED_OVER: Final = Sentence(
    "; chats con archivos del usuario anterior: {count} (pasan al nuevo con su próximo comando)",
    "; chats whose files are still a former user's: {count} (their next command hands them over)",
)

# Docker.
DOCKER: Final = Sentence("el daemon responde", "the daemon answers")
NO_DAEMON: Final = Sentence("ningún daemon responde en {address}", "no daemon answers at {address}")
MEND_NO_DAEMON: Final = Sentence(
    "Instalá Docker, o arrancá su daemon: systemctl start docker.",
    "Install Docker, or start its daemon: systemctl start docker.",
)
OTHERWISE_BUBBLEWRAP: Final = Sentence(
    " Sin Docker se usa bubblewrap.", " Without Docker bubblewrap is used."
)
NOT_ALLOWED: Final = Sentence(
    "este usuario no puede usar el daemon en {address}", "this user may not use the daemon at {address}"
)
MEND_DOCKER_GROUP: Final = Sentence(
    "Como root: usermod -aG docker {user}, y volvé a entrar. Eso da poder de root: docs/operations.md.",
    "As root: usermod -aG docker {user}, then log in anew. That gives root's power: docs/operations.md.",
)
DOCKER_HANGS: Final = Sentence("el daemon no responde a tiempo", "the daemon does not answer in time")
MEND_DOCKER_HANGS: Final = Sentence(
    "Reiniciá el daemon si sigue así: systemctl restart docker",
    "Restart the daemon if this lasts: systemctl restart docker",
)
DEGRADED: Final = Sentence("degradado: {why}", "degraded: {why}")
MEND_DOCKER_DEGRADED: Final = Sentence(
    "Cambialo en el núcleo (cgroups, swap): docs/operations.md, Docker.",
    "Change that in the kernel's settings (cgroups, swap): docs/operations.md, Docker.",
)
NO_IMAGE: Final = Sentence("la imagen {image} no está", "the image {image} is not there")
MEND_NO_IMAGE: Final = Sentence(
    "El primer chat la hace. Ahora mismo: rumi sandbox build",
    "The first chat builds it. At once: rumi sandbox build",
)
OLD_IMAGE: Final = Sentence(
    "la imagen {image} es de otra versión de Rumi", "the image {image} is another version's of Rumi"
)
FOREIGN_IMAGE: Final = Sentence(
    "la imagen {image} no es una que haya hecho Rumi", "the image {image} is none that Rumi made"
)
REBUILD: Final = Sentence("Hacela de nuevo: rumi sandbox build", "Make it anew: rumi sandbox build")
IMAGE: Final = Sentence("{image}, hecha de {source}", "{image}, made of {source}")
FROM_HOST: Final = Sentence("los programas de esta máquina", "this host's own programs")

# A container.
UNUSABLE: Final = Sentence("no se puede usar ninguno: {error}", "none can be used: {error}")
NOTHING_RUNS: Final = Sentence(
    "los comandos no corren adentro (salida {code}: {said})",
    "commands do not run in it (exit {code}: {said})",
)
NO_FILES: Final = Sentence(
    "los comandos no pueden escribir los archivos de su chat (/workspace)",
    "commands cannot write their chat's files (/workspace)",
)
MEND_NO_FILES: Final = Sentence(
    "¿El daemon corre en otra máquina, o con otros usuarios? docs/operations.md, Docker.",
    "Does the daemon run on another machine, or map users? docs/operations.md, Docker.",
)
CONTAINER: Final = Sentence(
    "sin capabilities ni privilegios nuevos, llamadas filtradas, sin red, raíz de solo lectura;"
    " {memory} MB, {pids} procesos",
    "no capabilities, no new privileges, system calls filtered, no network, root read-only;"
    " {memory} MB, {pids} processes",
)
CAPABILITIES: Final = Sentence("tiene capabilities", "it has capabilities")
PRIVILEGES: Final = Sentence("los comandos pueden ganar privilegios", "commands may gain privileges")
NO_FILTER: Final = Sentence("no se filtran las llamadas al sistema", "system calls are not filtered")
ROOT_USER: Final = Sentence("los comandos corren como root", "commands run as root")
ROOT_WRITABLE: Final = Sentence("se puede escribir en su raíz", "its root can be written")
NETWORK: Final = Sentence("tiene red", "it has a network")
MEMORY_UNBOUND: Final = Sentence("su memoria no está limitada", "its memory is not bounded")
PIDS_UNBOUND: Final = Sentence("sus procesos no están limitados", "its processes are not bounded")
MEND_PROMISES: Final = Sentence(
    "Los comandos no están encerrados como se promete: no lo uses. Mirá la versión y la configuración del"
    " daemon.",
    "Commands are not held as promised: do not use it. Look at the daemon's version and settings.",
)

# bubblewrap, and what both come to.
BUBBLEWRAP: Final = Sentence("un sandbox arranca", "a sandbox starts")
MEND_DEGRADED: Final = Sentence(
    "Usá Docker, o dejá que Rumi haga grupos de control: como servicio, con Delegate=yes.",
    "Use Docker, or let Rumi make control groups: as a service, with Delegate=yes in its unit.",
)
MEND_BUBBLEWRAP: Final = Sentence(
    "Dejá que el núcleo haga espacios de nombres de usuario, o usá Docker.",
    "Let the kernel make user namespaces, or use Docker.",
)
NO_SANDBOX: Final = Sentence(
    "acá no andan ni Docker ni bubblewrap", "neither Docker nor bubblewrap works here"
)
NOT_THE_NAMED: Final = Sentence("{backend} no anda acá", "{backend} does not work here")
MEND_NO_SANDBOX: Final = Sentence(
    "Arreglá uno de los dos: los comandos necesitan un sandbox.",
    "Mend one of them: commands need a sandbox.",
)
BOT_NEEDS_DOCKER: Final = Sentence(
    "hay un token de Telegram, y rumi telegram pide Docker",
    "there is a Telegram token, and rumi telegram wants Docker",
)
MEND_BOT_NEEDS_DOCKER: Final = Sentence(
    'Arreglá Docker, o elegí el otro en config.toml: [sandbox] backend = "bubblewrap"',
    'Mend Docker, or choose the other in config.toml: [sandbox] backend = "bubblewrap"',
)

# What bounds the chats' files.
FILES_BOUND: Final = Sentence(
    "{megabytes} MB y {files} archivos por chat, vigilados mientras corre un comando (sin cuotas de disco)",
    "{megabytes} MB and {files} files a chat, watched while a command runs (no disk quotas)",
)
ROOM_LEFT: Final = Sentence(
    "{free} GB libres, {reserve} GB de ellos reservados para Rumi",
    "{free} GB free, {reserve} GB of them kept for Rumi",
)
MEND_ROOM_LEFT: Final = Sentence(
    "Hasta que haya lugar solo corren comandos que borran o leen. Hacé lugar, o cambiá [sandbox] reserve_mb.",
    "Until there is room only commands that delete or read run. Make room, or change [sandbox] reserve_mb.",
)

# Servers, where they are asked.
NOTHING_TO_TRY: Final = Sentence("no hay clave para probar", "there is no key that could be tried")
OFFLINE: Final = Sentence("el modelo offline está acá", "the offline model is here")
ANSWERED: Final = Sentence("{model} respondió en {seconds} s", "{model} answered in {seconds} s")
SMALL_PLAN: Final = Sentence(
    "el plan permite {tokens} tokens por minuto: las páginas y los resultados largos se recortan a eso",
    "the plan allows {tokens} tokens a minute: long pages and results are cut to that",
)
KNOWN_BOT: Final = Sentence("Telegram conoce al bot como @{name}", "Telegram knows the bot as @{name}")
