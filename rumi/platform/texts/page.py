"""Texts of the web page, and messages about the page that the server prints to its terminal."""

from rumi.platform.texts.language import Language, in_language, pick


def page_link(language: Language, link: str, minutes: int) -> str:
    """Return the line with the page's login link, and how long the link is valid."""
    return pick(
        language,
        f"La página: {link}\n(sirve una vez, {minutes} minutos; pedir la página después imprime otro)",
        f"The page: {link}\n(works once, for {minutes} minutes; asking for the page later prints another)",
    )


def page_is_open(language: Language, url: str) -> str:
    """Warn that other machines can reach the web page without TLS."""
    return pick(
        language,
        f"⚠️ La página {url} se alcanza desde otras máquinas, sin TLS: quien esté en el camino puede leerla y"
        " usar tu sesión. Mejor --web 127.0.0.1:8080 y un túnel: ssh -L 8080:127.0.0.1:8080 SERVIDOR.",
        f"⚠️ The page {url} can be reached from other machines, without TLS: everyone on the network path can"
        " read it and use your session. Better: --web 127.0.0.1:8080 and ssh -L 8080:127.0.0.1:8080 SERVER.",
    )


def listens(language: Language, url: str) -> str:
    """Say at which URLs health checks and metrics are served."""
    return pick(
        language,
        f"Salud y métricas: {url}/healthz, {url}/readyz, {url}/metrics",
        f"Health and metrics: {url}/healthz, {url}/readyz, {url}/metrics",
    )


def listener_is_open(language: Language) -> str:
    """Warn that other machines can reach the listener for health checks and metrics."""
    return pick(
        language,
        "⚠️ Otras máquinas llegan a esa dirección, sin TLS: leen las métricas. Mejor 127.0.0.1 y un"
        " balanceador delante.",
        "⚠️ Other machines can reach this address, without TLS: they can read the metrics. Better: 127.0.0.1"
        " behind a load balancer.",
    )


_WORDS: dict[str, tuple[str, str]] = {
    "actor": ("actor", "actor"),
    "answer_failed": ("La respuesta ya no cuenta.", "That answer does not count any more."),
    "asks": ("espera tu sí", "waits for your yes"),
    "assistant": ("Rumi", "Rumi"),
    "attach": ("Adjuntar archivos", "Attach files"),
    "began": ("empezó", "began"),
    "bot": ("bot", "bot"),
    "bot_queued": ("espera un lugar", "waits for a place"),
    "bot_running": ("trabaja", "at work"),
    "bot_sleeping": ("duerme", "sleeps"),
    "bots": ("Bots", "Bots"),
    "budget": ("presupuesto", "budget"),
    "chat": ("chat", "chat"),
    "chat_id_hint": ("Hasta 64 letras, cifras, - y _", "Up to 64 letters, digits, - and _"),
    "chat_title": ("Título", "Title"),
    "chats": ("Chats", "Chats"),
    "chats_line": ("{work} trabajando, {memory} en memoria", "{work} at work, {memory} in memory"),
    "chosen": ("Archivos del próximo mensaje", "Files of the next message"),
    "closed": ("Cerrado", "Closed"),
    "closed_text": (
        "Para entrar hace falta el enlace que está en la terminal donde corre Rumi. Sirve una sola"
        " vez y por poco tiempo; si ya no sirve, ahí hay ahora uno nuevo.",
        "To come in you need the link in the terminal where Rumi runs. It works once, and not for"
        " long; where it no longer works, there is a new one in that terminal now.",
    ),
    "connected": ("en vivo", "live"),
    "connecting": ("conectando…", "connecting…"),
    "copied": ("Copiado", "Copied"),
    "copy": ("Copiar", "Copy"),
    "copy_answer": ("Copiar la respuesta", "Copy the answer"),
    "copy_code": ("Copiar el bloque", "Copy the block"),
    "doing": ("qué hace", "doing"),
    "earlier": ("Mensajes anteriores", "Earlier messages"),
    "ending": ("Rumi está terminando y no toma más mensajes.", "Rumi is ending and takes no more messages."),
    "enter": ("Entrar", "Come in"),
    "exit": ("salida {code}", "exit {code}"),
    "failed": ("fracasó", "failed"),
    "files": ("Archivos", "Files"),
    "folder_up": ("Subir", "Up"),
    "found": ("Encontrado", "Found"),
    "gave_up": ("se dio por vencido", "gave up"),
    "history": ("historial", "history"),
    "idle": ("libre", "idle"),
    "latest": ("el último", "latest"),
    "log": ("Conversación", "Conversation"),
    "logout": ("Salir", "Log out"),
    "lost": ("sin conexión; reintento…", "no connection; trying again…"),
    "mail": ("cola", "mail"),
    "message": ("Mensaje", "Message"),
    "message_hint": (
        "Enter manda · Mayús-Enter nueva línea · Esc detiene",
        "Enter sends · Shift-Enter new line · Esc stops",
    ),
    "model_calls": ("{count} llamadas al modelo", "{count} model calls"),
    "new_chat": ("Chat nuevo", "New chat"),
    "new_session": ("— otra sesión —", "— another session —"),
    "no": ("No", "No"),
    "no_chats": ("Ningún chat en memoria.", "No chat in memory."),
    "no_files": ("Este chat no tiene archivos.", "This chat has no files."),
    "no_picture": ("No es una imagen que se pueda mostrar.", "This is no picture that can be shown."),
    "no_restarts": ("Ningún reinicio en la última hora.", "No restart in the last hour."),
    "no_turns": ("Todavía ningún turno.", "No turn yet."),
    "number": ("n.º", "no."),
    "iterations": ("iteraciones", "iterations"),
    "kind": ("clase", "kind"),
    "what": ("qué", "what"),
    "when": ("cuándo", "when"),
    "not_copied": ("No se pudo copiar", "Could not copy"),
    "not_now": ("El chat no está disponible ahora.", "The chat is not there now."),
    "not_sent": ("No se mandó: {why}", "Not sent: {why}"),
    "not_complete": ("no completo", "not complete"),
    "not_uploaded": ("{name} no se subió: {why}", "{name} was not uploaded: {why}"),
    "nothing_found": ("No se encontró nada.", "Nothing was found."),
    "nothing_said": ("Escribí algo: Rumi contesta acá.", "Say something: Rumi answers here."),
    "now": ("ahora", "now"),
    "older": ("anteriores", "earlier"),
    "open": ("Abrir", "Open"),
    "over": ("sesión terminada", "session over"),
    "over_text": (
        "La sesión terminó. En la terminal donde corre Rumi hay un enlace nuevo.",
        "The session is over. There is a new link in the terminal where Rumi runs.",
    ),
    "picture": ("Ver la imagen", "Show the picture"),
    "preview": ("Vista previa de {name}", "Preview of {name}"),
    "queued": ("{count} en cola", "{count} queued"),
    "reason": ("final", "end"),
    "refresh": ("Actualizar", "Refresh"),
    "remove_file": ("Quitar {name}", "Remove {name}"),
    "renewed": ("se renueva", "renewed"),
    "rename": ("Cambiar", "Rename"),
    "restarted": ("se reinició", "restarted"),
    "restarts": ("Reinicios", "Restarts"),
    "restart_in_all": ("1 reinicio en la última hora", "1 restart in the last hour"),
    "restarts_about": ("por minuto, la última hora", "a minute, the last hour"),
    "restarts_in_all": ("{count} reinicios en la última hora", "{count} restarts in the last hour"),
    "schedule_active": ("activo", "active"),
    "schedule_bot": ("bot", "bot"),
    "schedule_done": ("hecho", "done"),
    "schedule_paused": ("en pausa", "paused"),
    "schedule_research": ("investigación", "research"),
    "schedule_text": ("recordatorio", "reminder"),
    "schedule_turn": ("pedido", "turn"),
    "schedules": ("Programas", "Schedules"),
    "schedules_line": ("{active} activos, {paused} en pausa", "{active} active, {paused} paused"),
    "search": ("Buscar en los chats", "Search the chats"),
    "send": ("Mandar", "Send"),
    "skip": ("Ir al mensaje", "Skip to the message"),
    "spending": ("Gasto", "Spending"),
    "spent_month": ("este mes", "this month"),
    "spent_today": ("hoy", "today"),
    "state": ("estado", "state"),
    "step_in_all": ("1 paso", "1 step"),
    "steps": ("Pasos", "Steps"),
    "steps_in_all": ("{count} pasos", "{count} steps"),
    "storage_away": ("La base de datos no responde", "The database does not answer"),
    "storage_failing": ("El disco no deja escribir", "The disk refuses to write"),
    "storage_full": ("El disco está lleno", "The disk is full"),
    "storage_locked": ("Otro programa bloquea la base de datos", "Another program locks the database"),
    "storage_replaced": ("state.db fue borrado o reemplazado", "state.db was deleted or replaced"),
    "stop": ("Detener", "Stop"),
    "stop_all": ("Detener todo", "Stop everything"),
    "stop_all_sure": (
        "¿Todos los turnos, tareas, bots y horarios? Pulsá otra vez",
        "All turns, tasks, bots and schedules? Press again",
    ),
    "stopped_at": ("terminó: {reason}", "ended: {reason}"),
    "talk": ("Charla", "Talk"),
    "title": ("Rumi", "Rumi"),
    "too_many": ("Hay demasiadas ventanas abiertas.", "Too many windows are open."),
    "tokens": ("tokens", "tokens"),
    "too_many_files": ("Hasta {count} archivos por mensaje.", "At most {count} files in a message."),
    "took": ("duró", "took"),
    "tools": ("llamadas", "calls"),
    "tree": ("Árbol de supervisión", "Supervision tree"),
    "turn": ("turno", "turn"),
    "turn_in_all": ("1 turno, {most}", "1 turn, {most}"),
    "turn_times": ("Duración de los turnos", "Turn times"),
    "turn_times_about": ("los últimos 60", "the last 60"),
    "turns": ("Turnos recientes", "Recent turns"),
    "turns_in_all": (
        "{count} turnos; mediana {median}, el más largo {most}",
        "{count} turns; median {median}, longest {most}",
    ),
    "up": ("en marcha hace {age}", "up {age}"),
    "uploading": ("subiendo…", "uploading…"),
    "used": ("usado", "used"),
    "verdict_expired": ("Sin respuesta: no.", "No answer: no."),
    "verdict_no": ("No.", "No."),
    "verdict_nobody": ("Nadie podía contestar: no.", "Nobody could answer: no."),
    "verdict_yes": ("Sí.", "Yes."),
    "whole_question": ("La pregunta entera", "The whole question"),
    "worker_ended": ("{name}: terminó", "{name}: ended"),
    "worker_leaving": ("{name}: se va", "{name}: leaving"),
    "worker_running": (
        "{name}: {partitions} particiones, {turns} turnos",
        "{name}: {partitions} partitions, {turns} turns",
    ),
    "working": ("trabajando", "working"),
    "yes": ("Sí", "Yes"),
    "you": ("Vos", "You"),
}


def page_words(language: Language) -> dict[str, str]:
    """Return the texts of the web page by name. The page's script replaces the placeholders in braces."""
    return in_language(language, _WORDS)
