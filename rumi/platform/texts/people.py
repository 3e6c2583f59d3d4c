"""Texts that tell people their role, the role's rights, and the facts that they share with a group."""

from collections.abc import Sequence

from rumi.platform.texts.language import Language, pick


def not_allowed(language: Language, what: str, role: str) -> str:
    """Say that the person's role does not allow the request."""
    return pick(
        language,
        f"🔒 Tu rol ({role}) no permite {what}. Con /whoami ves lo que podés hacer.",
        f"🔒 Your role ({role}) does not allow {what}. /whoami says what you may do.",
    )


def not_on_the_list(language: Language) -> str:
    """Say that a person is no longer on a list of users."""
    return pick(
        language,
        "🔒 Ya no estás en la lista, así que no hago lo que pediste. Hablá con el dueño.",
        "🔒 You are not on the list any more, so I do not do what you asked for. Ask the owner.",
    )


def scheduled_work(language: Language) -> str:
    """Return the term for work that schedules start, for use in sentences."""
    return pick(language, "trabajos programados", "scheduled work")


def retry_refused(language: Language) -> str:
    """Say that a person may not retry another person's request, because their roles differ."""
    return pick(
        language,
        "🔒 Eso lo pidió otra persona con otro rol: solo ella puede reintentarlo. Pedilo con tus palabras.",
        "🔒 Somebody with another role asked for that: only they can retry it. Ask in your own words.",
    )


def who_you_are(
    language: Language,
    *,
    name: str,
    id: str,
    role: str,
    tools: Sequence[str] | None,
    models: Sequence[str] | None,
    schedules: int | None,
    bots: int | None,
    left: Sequence[tuple[str, str, str]],
) -> str:
    """Return a person's name, the rights of the person's role, and the amounts left in the person's budgets.

    None stands for no limit. Each row of `left` has a budget's period, the amount left, and the limit.
    """
    every = pick(language, "sin límite", "any number")

    def listed(names: Sequence[str] | None, all_of_them: str, none: str) -> str:
        return all_of_them if names is None else ", ".join(f"`{name}`" for name in names) or none

    all_tools, no_tools = pick(language, "todas", "all"), pick(language, "ninguna", "none")
    all_models = pick(language, "todos", "all")
    own_model = pick(language, "el de siempre", "the default one")
    who = f"`{name}`" if name else pick(language, "sin nombre", "without a name")
    number = f" (id {id})" if id else ""
    lines = [
        f"👤 {who}{number}, {pick(language, 'rol', 'role')}: `{role}`",
        f"- {pick(language, 'Herramientas', 'Tools')}: {listed(tools, all_tools, no_tools)}",
        f"- {pick(language, 'Modelos', 'Models')}: {listed(models, all_models, own_model)}",
        f"- {pick(language, 'Programas y recordatorios', 'Schedules and reminders')}: "
        f"{every if schedules is None else schedules}",
        f"- Bots: {every if bots is None else bots}",
    ]
    for period, rest, most in left:
        when = {"day": pick(language, "hoy", "today")}.get(period, pick(language, "este mes", "this month"))
        lines.append(
            pick(language, f"- Te queda {when}: {rest} de {most}", f"- Left {when}: {rest} of {most}")
        )
    if not left:
        lines.append(pick(language, "- Sin presupuesto propio", "- No budget of your own"))
    return "\n".join(lines)


def person_line(
    language: Language,
    *,
    name: str,
    ids: Sequence[int],
    role: str,
    tools: Sequence[str] | None,
    schedules: int | None,
    bots: int | None,
    tokens: int,
    usd: float,
) -> str:
    """Describe a person on one line: name, ids, role, the role's rights, and the person's usage of today."""
    every = pick(language, "sin límite", "any number")
    which = pick(language, "todas", "all") if tools is None else ", ".join(tools)
    which = which or pick(language, "ninguna", "none")
    many = every if schedules is None else schedules
    of_bots = every if bots is None else bots
    who = f"{name}  {role}  {' '.join(map(str, ids)) or '-'}"
    return pick(
        language,
        f"{who}  herramientas: {which}; programas: {many}; bots: {of_bots}; "
        f"hoy: {tokens:,} tokens, {usd:.4f} USD",
        f"{who}  tools: {which}; schedules: {many}; bots: {of_bots}; today: {tokens:,} tokens, {usd:.4f} USD",
    )


def share_in_groups(language: Language) -> str:
    """Say that facts can only be shared in groups."""
    return pick(
        language,
        "Se comparte en un grupo: mandá `/share CLAVE` ahí, y `/unshare CLAVE` para dejar de hacerlo.",
        "Facts are shared in a group: send `/share KEY` there, and `/unshare KEY` to take it back.",
    )


def shared_facts(language: Language, keys: Sequence[str]) -> str:
    """Return the keys of the facts that a person shares with the group."""
    named = ", ".join(_code(key) for key in keys)
    if not named:
        return pick(
            language,
            "No compartís nada con este grupo. `/share CLAVE` comparte un dato tuyo.",
            "You share nothing with this group. `/share KEY` shares a fact of yours.",
        )
    return pick(language, f"Compartís con este grupo: {named}", f"You share with this group: {named}")


def shared_now(language: Language, key: str, facts: int) -> str:
    """Say that the group now sees a person's facts with a key, or that there are no facts with this key."""
    if not facts:
        return pick(
            language,
            f"No sé nada de vos con la clave {_code(key)}. Con /memory, en nuestro chat, ves lo que sé.",
            f"I know nothing about you under {_code(key)}. /memory, in our own chat, lists what I know.",
        )
    return pick(
        language,
        f"🔓 Este grupo ve ahora lo que sé de vos con la clave {_code(key)}. `/unshare` lo deshace.",
        f"🔓 This group now sees what I know about you under {_code(key)}. `/unshare` takes it back.",
    )


def unshared(language: Language, key: str, done: int) -> str:
    """Say that the group no longer sees the facts with a key, and that earlier messages about them remain."""
    if not done:
        return pick(
            language, f"No compartías {_code(key)} con este grupo.", f"You did not share {_code(key)} here."
        )
    return pick(
        language,
        f"🔒 Este grupo ya no ve {_code(key)}. Lo que ya se dijo queda en el historial: /reset lo borra.",
        f"🔒 This group sees {_code(key)} no more. What was said with it stays in the history: /reset clears "
        "that.",
    )


def _code(text: str) -> str:
    return f"`{text.replace('`', chr(39))}`"
