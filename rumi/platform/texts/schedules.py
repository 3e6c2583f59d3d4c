"""Texts for people about reminders and schedules."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from rumi.platform.texts.language import Language, pick
from rumi.platform.texts.tasks import shortly

_DAYS: Final = {
    "en": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "es": ("lunes", "martes", "miércoles", "jueves", "viernes", "sábado", "domingo"),
}
_MONTHS: Final = {
    "en": ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
           "November", "December"),
    "es": ("enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre", "octubre",
           "noviembre", "diciembre"),
}  # fmt: skip


def moment(language: Language, local: datetime, zone: str) -> str:
    """Return a local date and time in words."""
    day, month = _DAYS[language][local.weekday()], _MONTHS[language][local.month - 1]
    date = pick(
        language, f"{day} {local.day} de {month} de {local.year}", f"{day} {local.day} {month} {local.year}"
    )
    return f"{date}, {local:%H:%M}, {zone}"


def recurrence(language: Language, cron: str) -> str:
    """Describe a recurrence in words; return the cron expression itself if no short description exists."""
    minute, hour, day, month, weekday = cron.split()
    at = f"{int(hour):02}:{int(minute):02}" if hour.isdigit() and minute.isdigit() else ""
    if at and (month, day) == ("*", "*") and (days := _weekdays(language, weekday)):
        return f"{days}, {at}"
    if at and month == weekday == "*" and day.isdigit():
        return pick(language, f"el {day} de cada mes, {at}", f"on day {day} of each month, {at}")
    if hour == day == month == weekday == "*":
        if minute == "*":
            return pick(language, "cada minuto", "every minute")
        if (step := re.fullmatch(r"\*/(\d+)", minute)) is not None:
            return pick(language, f"cada {step[1]} minutos", f"every {step[1]} minutes")
        if minute == "0":
            return pick(language, "cada hora", "every hour")
    if (minute, day, month, weekday) == ("0", "*", "*", "*") and (step := re.fullmatch(r"\*/(\d+)", hour)):
        return pick(language, f"cada {step[1]} horas", f"every {step[1]} hours")
    return f"cron {cron}"


def _weekdays(language: Language, field: str) -> str:
    if field == "*":
        return pick(language, "cada día", "every day")
    if field == "1-5":
        return pick(language, "de lunes a viernes", "Monday to Friday")
    if re.fullmatch(r"[0-7](,[0-7])*", field) is None:
        return ""
    names = [_DAYS[language][(int(number) - 1) % 7] for number in field.split(",")]
    *first, last = names
    listed = f"{', '.join(first)} {pick(language, 'y', 'and')} {last}" if first else last
    return pick(language, f"cada {listed}", f"every {listed}")


def schedule_set(
    language: Language, id: int, kind: str, when: str, text: str, *, stays: bool, quiet: str = ""
) -> str:
    """Confirm a new schedule and say how to change it. `stays` means that the daemon runs without clients."""
    name = pick(
        language,
        {"text": "Recordatorio"}.get(kind, "Programa"),
        {"text": "Reminder"}.get(kind, "Schedule"),
    )
    lines = [
        f"⏰ {name} {id}: {when}",
        f"   «{shortly(text)}»" if language == "es" else f"   “{shortly(text)}”",
        pick(
            language,
            f"Para cambiarlo, borralo y pedilo de nuevo: /schedules delete {id}",
            f"To change it, delete it and ask again: /schedules delete {id}",
        ),
    ]
    if quiet:
        lines.insert(
            1,
            pick(
                language, f"   En horas de silencio: llega {quiet}.", f"   In quiet hours: it comes {quiet}."
            ),
        )
    if not stays:
        lines.append(
            pick(
                language,
                "Suena mientras Rumi corre; para que corra siempre: rumi serve",
                "It fires while a Rumi runs; to keep one running: rumi serve",
            )
        )
    return "\n".join(lines)


def schedule_state(language: Language, state: str) -> str:
    """Return the name of a schedule's state."""
    return {
        "active": pick(language, "activo", "active"),
        "paused": pick(language, "en pausa", "paused"),
        "done": pick(language, "hecho", "done"),
    }.get(state, state)


def schedule_fired(language: Language, when: str) -> str:
    """Say when a finished schedule last fired; `when` is empty if it never fired."""
    if not when:
        return pick(language, "no sonó", "did not fire")
    return pick(language, f"sonó el {when}", f"fired on {when}")


def schedule_kind(language: Language, kind: str) -> str:
    """Return the name of a schedule's kind, which is the action that it performs when it fires."""
    return {
        "text": pick(language, "recordatorio", "reminder"),
        "turn": pick(language, "pedido", "turn"),
        "research": pick(language, "investigación", "research"),
        "bot": "bot",
    }.get(kind, kind)


def schedule_list(language: Language, rows: Sequence[tuple[int, str, str, str, str]]) -> str:
    """List schedules in Markdown; each row has a number, a kind, a state, a time and a text."""
    if not rows:
        return pick(language, "No hay recordatorios ni programas.", "There are no reminders or schedules.")
    return "\n".join(
        " · ".join(
            (f"- {id}", schedule_kind(language, kind), schedule_state(language, state), when, shortly(text))
        )
        for id, kind, state, when, text in rows
    )


def schedule_changed(language: Language, id: int, what: str, when: str = "") -> str:
    """Say that a schedule was paused, resumed or deleted, or that it fires now."""
    return {
        "pause": pick(language, f"⏸ El programa {id} está en pausa.", f"⏸ Schedule {id} is paused."),
        "resume": pick(language, f"▶ El programa {id} sigue: {when}", f"▶ Schedule {id} goes on: {when}"),
        "run": pick(language, f"⏰ El programa {id} corre ahora.", f"⏰ Schedule {id} runs now."),
        "delete": pick(language, f"🗑 Borré el programa {id}.", f"🗑 Schedule {id} is deleted."),
    }[what]


def schedule_usage(language: Language) -> str:
    """Say how to use `/remind`, `/schedules` and `/timezone`, with examples of times."""
    return pick(
        language,
        "No entendí cuándo. Usá /remind CUÁNDO: TEXTO, por ejemplo:\n"
        "- /remind en 20 minutos: sacar la pizza\n"
        "- /remind mañana 09:00: llamar al dentista\n"
        "- /remind 2026-12-01 18:30: la cena\n"
        "- /remind todos los lunes 08:00: regar las plantas\n"
        "- /remind 0 9 1 * *: pagar el alquiler\n"
        "La hora va de 00:00 a 23:59. /schedules muestra lo que hay; /schedules pause|resume|run|delete N "
        "lo cambia; /timezone Europe/Madrid fija tu zona.",
        "I did not understand when. Use /remind WHEN: TEXT, for example:\n"
        "- /remind in 20 minutes: take out the pizza\n"
        "- /remind tomorrow 09:00: call the dentist\n"
        "- /remind 2026-12-01 18:30: dinner\n"
        "- /remind every monday 08:00: water the plants\n"
        "- /remind 0 9 1 * *: pay the rent\n"
        "Times go from 00:00 to 23:59. /schedules shows what there is; /schedules pause|resume|run|delete N "
        "changes it; /timezone Europe/Madrid sets your zone.",
    )


def zone_is(language: Language, zone: str) -> str:
    """Say which time zone is used."""
    if not zone:
        return pick(
            language,
            "No sé tu zona horaria. Decila una vez, por ejemplo: /timezone Europe/Madrid",
            "I do not know your time zone. Say it once, for example: /timezone Europe/Madrid",
        )
    return pick(
        language,
        f"🕰 Tu zona horaria es {zone}. Lo que ya está programado conserva la suya.",
        f"🕰 Your time zone is {zone}. What is scheduled already keeps its own.",
    )


def zone_unknown(language: Language, name: str, like: str) -> str:
    """Say that the time zone is unknown, and suggest similar ones."""
    if like:
        return pick(
            language, f"❌ No hay zona {name}. ¿Será {like}?", f"❌ Unknown zone {name}. Perhaps: {like}?"
        )
    return pick(
        language,
        f"❌ No hay zona {name}. Los nombres son como Europe/Madrid o America/Argentina/Buenos_Aires.",
        f"❌ Unknown zone {name}. Names are like Europe/Madrid or America/New_York.",
    )


def fire_text(language: Language, text: str, late: str = "") -> str:
    """Return the message of a reminder."""
    return f"⏰ {text}\n\n{late}" if late else f"⏰ {text}"


def fire_late(language: Language, when: str, missed: int = 0) -> str:
    """Say when a late reminder was due, and how many earlier firings were missed."""
    said = pick(language, f"(Llega tarde: era para el {when}.", f"(Late: it was for {when}.")
    if missed:
        said += pick(language, f" Antes se perdieron {missed}.", f" Missed before it: {missed}.")
    return f"{said})"


def fire_work_late(language: Language, id: int, late: str) -> str:
    """Say that the scheduled work starts now, later than planned."""
    return pick(
        language, f"⏰ El programa {id} empieza ahora. {late}", f"⏰ Schedule {id} begins now. {late}"
    )


def fire_failed(language: Language, id: int, why: str) -> str:
    """Say that the scheduled work could not start, and why."""
    return pick(
        language, f"❌ El programa {id} no pudo empezar. {why}", f"❌ Schedule {id} could not begin. {why}"
    )


def schedule_paused(language: Language, id: int, times: int, text: str) -> str:
    """Say that a schedule is paused because it failed several times."""
    return pick(
        language,
        f"⏸ El programa {id} («{shortly(text)}») falló {times} veces seguidas y quedó en pausa. "
        f"/schedules resume {id} lo reanuda.",
        f"⏸ Schedule {id} (“{shortly(text)}”) failed {times} times in a row and is paused. "
        f"/schedules resume {id} has it go on.",
    )


def schedules_missed(language: Language, rows: Sequence[tuple[int, str, int, str]]) -> str:
    """Say which firings were missed, because Rumi did not run or the previous firing had not ended.

    Each row has a schedule's number and text, the count of missed firings, and the time of the first one.
    """
    first = pick(
        language,
        "⏰ Se perdió, porque nada corría o el anterior no había terminado:",
        "⏰ Missed, because nothing ran or the one before had not ended:",
    )
    lines = [
        pick(
            language,
            f"- {id} «{shortly(text)}»: {many} ({'el' if many == 1 else 'desde el'} {since})",
            f"- {id} “{shortly(text)}”: {many} ({'on' if many == 1 else 'since'} {since})",
        )
        for id, text, many, since in rows
    ]
    return "\n".join((first, *lines))
