"""Texts for people about budgets and the usage of model calls."""

from collections.abc import Sequence
from datetime import datetime

from rumi.platform.texts.language import Language, pick

_MONTHS_ES = (
    *("enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre", "octubre"),
    *("noviembre", "diciembre"),
)
_MONTHS_EN = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October"),
    *("November", "December"),
)


def budget_name(language: Language, scope: str, period: str) -> str:
    """Return the name of a budget, for use in sentences."""
    whose = {
        "total": pick(language, "el presupuesto total", "the budget for everything"),
        "owner": pick(language, "el presupuesto de este usuario", "this user's budget"),
        "chat": pick(language, "el presupuesto de este chat", "this chat's budget"),
        "task": pick(language, "el presupuesto de esta tarea", "this task's budget"),
        "bot": pick(language, "el presupuesto de este bot", "this bot's budget"),
        "person": pick(language, "el presupuesto de esta persona", "this person's budget"),
    }[scope]
    when = {
        "day": pick(language, " de hoy", " for today"),
        "month": pick(language, " de este mes", " for this month"),
    }.get(period, "")
    return whose + when


def budget_refused(
    language: Language, scope: str, period: str, used: str, most: str, asked: str, renews: datetime | None
) -> str:
    """Say that a budget does not allow a model call, and when the budget is renewed."""
    name = budget_name(language, scope, period)
    again = pick(language, "No se renueva.", "It is not renewed.")
    if renews is not None:
        when = _when(language, renews)
        again = pick(language, f"Se renueva el {when}.", f"It is renewed on {when}.")
    allow = pick(
        language,
        "Un administrador puede permitir más: `/allow 2 USD today`.",
        "An admin can allow more: `/allow 2 USD today`.",
    )
    return pick(
        language,
        f"⛔ Se agotó {name}: se usó {used} de {most}, y hace falta hasta {asked}. {again} {allow}",
        f"⛔ {name[0].upper()}{name[1:]} is used up: {used} of {most} is used, and the next call needs up to "
        f"{asked}. {again} {allow}",
    )


def budget_notice(
    language: Language, scope: str, period: str, used: str, most: str, percent: int, renews: datetime | None
) -> str:
    """Say that a budget is nearly used up."""
    name = budget_name(language, scope, period)
    again = ""
    if renews is not None:
        when = _when(language, renews)
        again = pick(language, f" Se renueva el {when}.", f" It is renewed on {when}.")
    return pick(
        language,
        f"⚠️ Ya se usó el {percent} % d{name}: {used} de {most}.{again}",
        f"⚠️ {percent} % of {name} is used: {used} of {most}.{again}",
    )


def no_price(language: Language, model: str) -> str:
    """Say that a money budget does not allow a model without a known price."""
    return pick(
        language,
        f"⛔ Hay un presupuesto en dinero y no se conoce el precio de {model}. Poné en config.toml, en USD "
        f'por millón de tokens: [prices."{model}"] input = 0.15, output = 0.60',
        f"⛔ There is a budget in money, and the price of {model} is not known. Set it in config.toml, in "
        f'USD per million tokens: [prices."{model}"] input = 0.15, output = 0.60',
    )


def budget_allowed(language: Language, amount: str, chat: str) -> str:
    """Say how much more a chat may use today."""
    return pick(
        language,
        f"✅ El chat {chat} puede usar hoy {amount} más.",
        f"✅ The chat {chat} may use {amount} more today.",
    )


def budget_admins_only(language: Language) -> str:
    """Say that only admins may allow more usage."""
    return pick(language, "⛔ Solo un administrador puede permitir más.", "⛔ Only an admin can allow more.")


def allow_usage(language: Language) -> str:
    """Say how to use `/allow`."""
    return pick(
        language,
        "Se escribe así: `/allow 2 USD today`, o `/allow 50000 tokens today`; detrás puede ir el id de otro "
        "chat.",
        "Write it like this: `/allow 2 USD today`, or `/allow 50000 tokens today`; another chat's id may "
        "stand behind it.",
    )


def usage_text(
    language: Language,
    today: tuple[int, str, str],
    month: tuple[int, str, str],
    budgets: Sequence[tuple[str, str, str, str, str]],
    *,
    everybody: bool,
) -> str:
    """Return the usage of today and of this month in model calls, tokens and money, and the state of budgets.

    Each row of `budgets` has the budget's scope, name and period, the used amount, and the limit.
    """
    whose = pick(language, "de todos", "of everybody") if everybody else pick(language, "tuyo", "yours")
    lines = [pick(language, f"📊 Uso ({whose})", f"📊 Usage ({whose})")]
    for name, (calls, tokens, money) in (
        (pick(language, "Hoy", "Today"), today),
        (pick(language, "Este mes", "This month"), month),
    ):
        lines.append(
            pick(
                language,
                f"- {name}: {calls} llamadas al modelo, {tokens}, {money}",
                f"- {name}: {calls} model calls, {tokens}, {money}",
            )
        )
    for scope, who, period, used, most in budgets:
        named = f" ({who})" if scope not in ("total",) else ""
        name = budget_name(language, scope, period)
        lines.append(
            pick(
                language,
                f"- {name[0].upper()}{name[1:]}{named}: {used} de {most}",
                f"- {name[0].upper()}{name[1:]}{named}: {used} of {most}",
            )
        )
    if not budgets:
        lines.append(pick(language, "- No hay presupuestos.", "- There are no budgets."))
    return "\n".join(lines)


def usage_columns(language: Language, by: str) -> tuple[str, ...]:
    """Return the column titles of the table that `rumi usage` prints."""
    first = {
        "chat": pick(language, "chat", "chat"),
        "owner": pick(language, "usuario", "owner"),
        "person": pick(language, "persona", "person"),
        "model": pick(language, "modelo", "model"),
        "tool": pick(language, "herramienta", "tool"),
        "day": pick(language, "día", "day"),
    }[by]
    return (
        first,
        pick(language, "llamadas", "calls"),
        pick(language, "entrada", "prompt"),
        pick(language, "de caché", "cached"),
        pick(language, "salida", "reply"),
        "USD",
    )


def usage_in_words(language: Language) -> str:
    """Return the title of the row for replies that called no tool, in the table of usage."""
    return pick(language, "(respuesta)", "(answer)")


def usage_total(language: Language) -> str:
    """Return the title of the row with the total, in the table of usage."""
    return pick(language, "en total", "total")


def usage_unpriced(language: Language, tokens: str) -> str:
    """Say how many tokens have no known price."""
    return pick(
        language,
        f"{tokens} son de modelos sin precio conocido: [prices] en config.toml.",
        f"{tokens} are of models without a known price: [prices] in config.toml.",
    )


def usage_none(language: Language) -> str:
    """Say that no model calls have been made yet."""
    return pick(language, "Todavía no se usó nada.", "Nothing was used yet.")


def _when(language: Language, time: datetime) -> str:
    clock = time.strftime("%H:%M")
    return pick(
        language,
        f"{time.day} de {_MONTHS_ES[time.month - 1]} a las {clock}",
        f"{time.day} {_MONTHS_EN[time.month - 1]} at {clock}",
    )
