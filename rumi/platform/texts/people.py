"""Texts that tell people their role, the role's rights, and the facts that they share with a group."""

from collections.abc import Sequence
from datetime import datetime

from rumi.platform.texts.formats import day_and_month, number
from rumi.texts import Language, gettext


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
    every = gettext(language, "any number")

    def listed(names: Sequence[str] | None, all_of_them: str, none: str) -> str:
        return all_of_them if names is None else ", ".join(f"`{name}`" for name in names) or none

    all_tools, no_tools = gettext(language, "all"), gettext(language, "none")
    all_models = gettext(language, "all")
    own_model = gettext(language, "the default one")
    who = f"`{name}`" if name else gettext(language, "without a name")
    number = f" (id {id})" if id else ""
    lines = [
        f"👤 {who}{number}, {gettext(language, 'role')}: `{role}`",
        f"- {gettext(language, 'Tools')}: {listed(tools, all_tools, no_tools)}",
        f"- {gettext(language, 'Models')}: {listed(models, all_models, own_model)}",
        f"- {gettext(language, 'Schedules and reminders')}: {every if schedules is None else schedules}",
        f"- Bots: {every if bots is None else bots}",
    ]
    for period, rest, most in left:
        when = {"day": gettext(language, "today")}.get(period, gettext(language, "this month"))
        lines.append(gettext(language, "- Left {when}: {rest} of {most}", when=when, rest=rest, most=most))
    if not left:
        lines.append(gettext(language, "- No budget of your own"))
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
    every = gettext(language, "any number")
    which = gettext(language, "all") if tools is None else ", ".join(tools)
    which = which or gettext(language, "none")
    many = every if schedules is None else schedules
    of_bots = every if bots is None else bots
    who = f"{name}  {role}  {' '.join(map(str, ids)) or '-'}"
    return gettext(
        language,
        "{who}  tools: {which}; schedules: {many}; bots: {of_bots}; today: {tokens} tokens, {usd} USD",
        who=who,
        which=which,
        many=many,
        of_bots=of_bots,
        tokens=number(language, tokens),
        usd=number(language, usd, 4),
    )


def group_people(
    language: Language,
    members: Sequence[tuple[str, str, str, int, datetime]],
    *,
    more: int,
    others: Sequence[str],
    listen: str,
    quiet: str,
) -> str:
    """Return the people who have written to the assistant in a group, and how others can join them.

    Each row of `members` has a person's configured name (or ""), role ("" for people who may not talk any
    more), the name that they chose on Telegram, their id there (0: not shown), and when they first wrote.
    `more` is the number of people who are left out. `others` are the names of people who may talk to the
    assistant and have not written in the group. `listen` and `quiet` are the group's settings.
    """
    lines = [gettext(language, "👥 People who have written to me in this group:")]
    for name, role, chosen, id, since in members:
        # As code, a name is no link and no mention, which would notify its bearer.
        calls = gettext(language, "calls themselves {chosen}", chosen=_code(chosen))
        who = f"{_code(name)}, {calls}" if name else calls
        number = f" (id {id})" if id else ""
        right = _code(role) if role else gettext(language, "may not talk to me any more")
        lines.append(
            gettext(
                language,
                "- {who}{number}: {right}, since {day}",
                who=who,
                number=number,
                right=right,
                day=f"{day_and_month(language, since)} {since.year}",
            )
        )
    if not members:
        lines.append(gettext(language, "- nobody yet"))
    if more:
        lines.append(gettext(language, "- and {more} more", more=more))
    if others:
        names = ", ".join(map(_code, others))
        lines.append(gettext(language, "May talk to me too, and has not written here: {names}", names=names))
    heard = {
        "mention": gettext(language, "Here I hear commands, and messages that mention me."),
        "reply": gettext(language, "Here I hear commands, messages that mention me, and replies to mine."),
        "all": gettext(language, "Here I answer every message of people who may talk to me."),
    }[listen]
    lines.append("")
    lines.append(
        gettext(
            language,
            "Telegram gives bots no list of a group's members, so who has written nothing to me is missing.",
        )
    )
    lines.append(heard)
    if quiet:
        lines.append(
            gettext(
                language,
                "From {quiet} I send nothing here unless you write, and answer without a sound.",
                quiet=quiet.replace("-", "–"),
            )
        )
    lines.append(
        gettext(
            language,
            "To add somebody: when they write to me, I tell them their id. Then, on the server: "
            "`rumi config people add NAME --telegram ID --role member`.",
        )
    )
    return "\n".join(lines)


def people_in_groups_only(language: Language) -> str:
    """Return the reply to `/people` outside of groups."""
    return gettext(
        language,
        "`/people` lists the people of a group: send it there. On the server, `rumi config people list` "
        "lists everybody.",
    )


def shared_facts(language: Language, keys: Sequence[str]) -> str:
    """Return the keys of the facts that a person shares with the group."""
    named = ", ".join(_code(key) for key in keys)
    if not named:
        return gettext(language, "You share nothing with this group. `/share KEY` shares a fact of yours.")
    return gettext(language, "You share with this group: {named}", named=named)


def shared_now(language: Language, key: str, facts: int) -> str:
    """Say that the group now sees a person's facts with a key, or that there are no facts with this key."""
    if not facts:
        return gettext(
            language,
            "I know nothing about you under {key}. /memory, in our own chat, lists what I know.",
            key=_code(key),
        )
    return gettext(
        language,
        "🔓 This group now sees what I know about you under {key}. `/unshare` takes it back.",
        key=_code(key),
    )


def unshared(language: Language, key: str, done: int) -> str:
    """Say that the group no longer sees the facts with a key, and that earlier messages about them remain."""
    if not done:
        return gettext(language, "You did not share {key} here.", key=_code(key))
    return gettext(
        language,
        "🔒 This group sees {key} no more. What was said with it stays in the history: /reset clears that.",
        key=_code(key),
    )


def _code(text: str) -> str:
    return f"`{text.replace('`', chr(39))}`"
