"""Texts for people about bots."""

from collections.abc import Sequence
from typing import Literal

from rumi.platform.openat import shown
from rumi.platform.texts.language import Language, pick
from rumi.platform.texts.operating import short_duration
from rumi.platform.texts.parked import numbered, parked_buttons, parked_question
from rumi.platform.texts.tasks import shortly, task_state


def bot_made(language: Language, name: str, path: str) -> str:
    """Say that a bot was made, and what to do next."""
    return pick(
        language,
        f"🤖 El bot {name} está hecho. Escribí qué tiene que hacer en {path}\n"
        f"Arrancalo con: rumi bot run {name}",
        f"🤖 The bot {name} is made. Write what it is to do in {path}\nStart it with: rumi bot run {name}",
    )


def bot_forgot(language: Language, name: str, count: int) -> str:
    """Say how many facts a bot has forgotten."""
    return pick(language, f"El bot {name} olvidó {count} datos.", f"The bot {name} forgot {count} facts.")


def bot_imported(language: Language, name: str, facts: int, iterations: int) -> str:
    """Say how many facts and iterations were imported for a bot from another program."""
    return pick(
        language,
        f"🤖 {name}: {facts} datos, {iterations} iteraciones",
        f"🤖 {name}: {facts} facts, {iterations} iterations",
    )


def bot_skill_there(language: Language, name: str) -> str:
    """Say that the skill shared by all bots already exists and was not changed."""
    return pick(
        language,
        f"La habilidad {name} ya estaba y queda como era.",
        f"The skill {name} was there already and stays as it was.",
    )


def bot_skills_question(language: Language, name: str, count: int) -> str:
    """Ask for permission to install skills for a bot."""
    return pick(
        language,
        f"¿Instalar {'esta habilidad' if count == 1 else f'estas {count} habilidades'} en el bot {name}?",
        f"Install {'this skill' if count == 1 else f'these {count} skills'} in the bot {name}?",
    )


def bot_iteration(language: Language, number: int, most: int) -> str:
    """Say which iteration begins."""
    of = f"{number}/{most}" if most else str(number)
    return pick(language, f"{of} · iteración", f"{of} · iteration")


def bot_asks(
    language: Language,
    name: str,
    question: str,
    parked: Sequence[tuple[int, str]] = (),
    *,
    here: bool = False,
    waits: bool = False,
) -> str:
    """Return a message with a bot's question and the calls that need approval; empty if there are neither.

    If `here` is true, the reader answers in this terminal and needs no command. If `waits` is true, the bot
    pauses until the answer arrives.
    """
    parts, command = [], "" if here else f"/bot {name} "
    if question:
        answer = "." if here else f": {command}{pick(language, 'TU RESPUESTA', 'YOUR ANSWER')}"
        parts.append(
            pick(
                language,
                f"❓ El bot {name} pregunta:\n\n{question}\n\nEspera tu respuesta{answer}",
                f"❓ The bot {name} asks:\n\n{question}\n\nIt waits for your answer{answer}",
            )
        )
    if parked:
        meanwhile = pick(
            language, ", y mientras tanto sigue con otra cosa", ", and goes on with other work meanwhile"
        )
        head = pick(language, f"🔒 El bot {name} necesita tu sí", f"🔒 The bot {name} needs your yes")
        head += ":" if waits else f"{meanwhile}:"
        yes = pick(language, "sí", "yes")
        parts.append(parked_question(language, head, parked, f"{command}{yes}", f"{command}no"))
    if parts and here:
        parts.append(
            pick(
                language,
                f"Escribilo acá, o desde otra terminal: rumi bot wake {name} RESPUESTA",
                f"Type it here, or in another terminal: rumi bot wake {name} ANSWER",
            )
        )
    return "\n\n".join(parts)


def this_terminal(language: Language) -> str:
    """Return the words "this terminal", for use in sentences about a bot that runs there."""
    return pick(language, "esta terminal", "this terminal")


def bot_buttons(
    language: Language, name: str, options: Sequence[str], parked: Sequence[tuple[int, str]]
) -> tuple[tuple[str, str], ...]:
    """Return the buttons below a bot's message, each as its label and the command that a press sends."""
    yes = pick(language, "sí", "yes")
    said = tuple((option, f"/bot {name} {option}") for option in options)
    return said + parked_buttons(parked, f"/bot {name} {yes}", f"/bot {name} no")


def bot_plan_lapsed(language: Language, why: Literal["expired", "calls", "money"], question: str) -> str:
    """Say why a bot's approved plan no longer applies, and ask whether to approve the plan again."""
    reason = {
        "expired": pick(language, "El plan venció.", "The plan has expired."),
        "calls": pick(
            language, "Se usaron las llamadas al modelo del plan.", "The model calls of the plan are used up."
        ),
        "money": pick(language, "Se usó el dinero del plan.", "The money of the plan is used up."),
    }[why]
    again = pick(language, "¿Otra vez lo mismo?", "The same once more?")
    return f"{reason} {again} {question}"


def bot_sleeps(language: Language, seconds: float) -> str:
    """Say how long a bot sleeps, for a person who watches the bot in a terminal."""
    for_ = short_duration(seconds)
    return pick(language, f"duerme {for_}; Enter lo despierta", f"sleeps {for_}; Enter wakes it")


def bot_unanswered(language: Language, text: str, parked: Sequence[tuple[int, str]]) -> str:
    """Return a report, followed by the tool calls that were not executed because nobody approved them."""
    if not parked:
        return text
    head = pick(
        language,
        "🔒 Sin hacer, porque nadie dijo que sí:",
        "🔒 Not done, because nobody has said yes:",
    )
    return "\n\n".join([text, head, *(numbered(number, call) for number, call in parked)])


def bot_report(language: Language, summary: str, rows: Sequence[tuple[bool, str, str, str]]) -> str:
    """Return the report of a bot's session: the summary, then each claim and the result of its check.

    Each row has four values: True if the claim is true, the kind of the claim, the claim, and the finding of
    the check.
    """
    if not rows:
        nothing = pick(
            language, "Sin pruebas: el bot no declaró nada.", "Not proved: the bot claimed nothing."
        )
        return f"{summary}\n\n{nothing}"
    kinds = {
        "file": pick(language, "archivo", "file"),
        "command": pick(language, "comando", "command"),
        "test": pick(language, "prueba", "test"),
        "url": pick(language, "página", "page"),
    }
    proved = pick(language, "comprobado", "proved")
    not_true = pick(language, "NO ES CIERTO", "NOT TRUE")
    lines = [
        f"{'✅' if true else '❌'} {kinds.get(kind, kind)} `{shortly(what)}`: "
        f"{proved if true else not_true} ({_found(language, found)})"
        for true, kind, what, found in rows
    ]
    head = pick(language, "Lo que el bot declaró:", "What the bot claimed:")
    return "\n".join([summary, "", head, *(f"- {line}" for line in lines)])


def _found(language: Language, found: str) -> str:
    spanish = {
        "there is no such file": "no hay tal archivo",
        "it is not a file": "no es un archivo",
        "it was not written in this session": "no se escribió en esta sesión",
        "it did not run in this session": "no corrió en esta sesión",
        "it was not fetched in this session": "no se leyó en esta sesión",
        "read": "leída",
    }
    return pick(language, spanish.get(found, found), found)


def bot_claimed(language: Language, answer: str) -> str:
    """Return the report of a session that a bot ended with the stop phrase, without proof of its claims."""
    note = pick(
        language,
        "⚠️ Declarado, no comprobado: el bot dijo que terminó, sin pruebas.",
        "⚠️ Claimed, not proved: the bot said that it is done, without receipts.",
    )
    return f"{answer}\n\n{note}".strip()


def bot_limit(language: Language, limit: str, answer: str) -> str:
    """Return the report of a session that a limit ended."""
    note = {
        "iterations": pick(
            language,
            "⚠️ Se usaron todas las iteraciones; la meta no se alcanzó.",
            "⚠️ All iterations are used; the goal was not reached.",
        ),
        "budget": pick(
            language,
            "⚠️ Se usó todo el presupuesto; la meta no se alcanzó.",
            "⚠️ The budget is used up; the goal was not reached.",
        ),
    }[limit]
    return f"{answer}\n\n{note}".strip()


def bot_begins(language: Language, name: str, id: int) -> str:
    """Say that a session of a bot has begun."""
    return pick(
        language,
        f"🤖 El bot {name} empezó la sesión {id}. Su informe llega acá; /stop {name} lo detiene.",
        f"🤖 The bot {name} has begun session {id}. Its report comes here; /stop {name} stops it.",
    )


def bot_hears(language: Language, name: str) -> str:
    """Say that a running bot will read a message in its next iteration."""
    return pick(
        language,
        f"🤖 El bot {name} lo lee en su próxima iteración.",
        f"🤖 The bot {name} reads it in its next iteration.",
    )


def bot_wakes(language: Language, name: str) -> str:
    """Say that a sleeping bot has been woken and continues now."""
    return pick(language, f"🤖 El bot {name} sigue ahora.", f"🤖 The bot {name} goes on now.")


def bot_stops(language: Language, name: str) -> str:
    """Say that a bot is being stopped."""
    return pick(language, f"⏹ Detengo el bot {name}.", f"⏹ Stopping the bot {name}.")


def bots_refused(language: Language) -> str:
    """Say that the user is not allowed to run bots."""
    return pick(
        language,
        "Acá no podés usar bots. `[bots] allowed` en config.toml dice quién puede.",
        "You may not run bots here. `[bots] allowed` in config.toml says who may.",
    )


def bot_usage(language: Language) -> str:
    """Say how to use the chat commands for bots."""
    return pick(
        language,
        "Usá /bots, /bot NOMBRE META, /wake NOMBRE, o /stop NOMBRE.",
        "Use /bots, /bot NAME GOAL, /wake NAME, or /stop NAME.",
    )


def bot_list(language: Language, rows: Sequence[tuple[str, str, str, str]]) -> str:
    """List bots in Markdown. Each row has a bot's name, description, state and last goal."""
    if not rows:
        return pick(
            language,
            "No hay bots. Se crean con: rumi bot create NOMBRE",
            "There are no bots. Make one with: rumi bot create NAME",
        )
    lines = []
    for name, about, state, goal in rows:
        parts = [f"**{name}**", shortly(about), bot_state(language, state), shortly(goal)]
        lines.append(f"- {' · '.join(filter(None, parts))}")
    return "\n".join(lines)


def bot_state(language: Language, state: str) -> str:
    """Return the name of a bot's state; an empty `state` means that the bot has never run."""
    return task_state(language, state) if state else pick(language, "nunca corrió", "never ran")


def bot_resume(language: Language, name: str, id: int) -> str:
    """Say how to resume a bot's session."""
    return pick(
        language,
        f"Seguí con: rumi bot run {name} --resume {id}",
        f"Go on with: rumi bot run {name} --resume {id}",
    )


def bot_clones(language: Language, folder: str) -> str:
    """Say that a bot's project is being copied."""
    return pick(language, f"copio {shown(folder)} para el bot", f"copying {shown(folder)} for the bot")


def bot_without_history(language: Language, why: str) -> str:
    """Say why the copy of a project for a bot has no git history."""
    return pick(
        language,
        f"el proyecto viene sin la historia de git: {why}",
        f"the project has no history of git: {why}",
    )


def bot_left_out(language: Language, path: str, reason: str) -> str:
    """Say that a file or folder of a project was not copied for a bot, and why."""
    why = {
        "special": pick(language, "no es archivo, carpeta ni enlace", "it is not a file, a folder or a link"),
        "git": pick(language, "es de git", "it belongs to git"),
        "deep": pick(language, "está demasiado adentro", "it lies too deep"),
        "unreadable": pick(language, "no se puede leer", "it cannot be read"),
        "link": pick(language, "es un enlace hacia afuera", "it is a link that leads out"),
    }.get(reason, shown(reason))
    left_out = pick(language, "no viene", "left out")
    return f"⚠️ {left_out}: {shown(path)} ({why})"


def bot_unchanged(language: Language, name: str) -> str:
    """Say that a bot has changed no files."""
    return pick(
        language,
        f"El bot {name} no cambió nada en su proyecto.",
        f"The bot {name} has changed nothing in its project.",
    )


def bot_apply_question(language: Language, count: int, folder: str) -> str:
    """Ask whether a bot's changes may be applied to a folder."""
    return pick(
        language,
        f"¿Aplicar {'este cambio' if count == 1 else f'estos {count} cambios'} en {shown(folder)}?",
        f"Apply {'this change' if count == 1 else f'these {count} changes'} to {shown(folder)}?",
    )


def bot_applied(language: Language, count: int, folder: str) -> str:
    """Say how many files changed in a folder."""
    return pick(
        language,
        f"✅ {'Cambió 1 archivo' if count == 1 else f'Cambiaron {count} archivos'} en {shown(folder)}",
        f"✅ {'1 file' if count == 1 else f'{count} files'} changed in {shown(folder)}",
    )
