"""Texts about the memory, for people and for prompts."""

from collections.abc import Sequence

from rumi.platform.texts.language import Language, pick


def memory_title(language: Language) -> str:
    """Return the line above the facts in the prompt."""
    return pick(language, "Lo que sabés del usuario:", "What you know about the user:")


def memory_changed(language: Language) -> str:
    """Return the line above the list of facts that have changed since the prompt last listed them."""
    return pick(
        language,
        "Lo que cambió en lo que sabés del usuario (+ vale ahora, × ya no vale):",
        "Changes to what you know about the user (+ holds now, × holds no longer):",
    )


def facts_left_out(language: Language, count: int) -> str:
    """Return the line that says how many facts a list leaves out. The line does not look like a fact."""
    if count == 1:
        return pick(language, "(1 hecho más: recall lo encuentra)", "(1 more fact: recall finds it)")
    return pick(
        language, f"({count} hechos más: recall los encuentra)", f"({count} more facts: recall finds them)"
    )


def remembered(
    language: Language, key: str, value: str, others: Sequence[str], *, replaced: bool = False
) -> str:
    """Say that a fact was stored. `others` are the key's other values or, if `replaced`, its old ones."""
    done = pick(language, f"📝 Guardado: {key}: {value}.", f"📝 Saved: {key}: {value}.")
    if not others:
        return done
    listed = "; ".join(others)
    if replaced:
        return pick(language, f"{done} Antes: {listed}.", f"{done} Before: {listed}.")
    return pick(language, f"{done} También hay en {key}: {listed}.", f"{done} Also under {key}: {listed}.")


def forgotten(language: Language, key: str, count: int) -> str:
    """Say that the facts with a key were deleted, or that there were none."""
    if count == 0:
        return pick(language, f"No sé nada en {key}.", f"I know nothing under {key}.")
    return pick(
        language,
        f"🗑 Olvidé {'1 hecho' if count == 1 else f'{count} hechos'}: {key}.",
        f"🗑 Forgot {'1 fact' if count == 1 else f'{count} facts'}: {key}.",
    )


def facts_known(language: Language, count: int) -> str:
    """Return the line above a list of facts that a person reads."""
    if count == 0:
        return pick(language, "Todavía no sé nada de vos.", "I know nothing about you yet.")
    return pick(language, "Lo que sé de vos:", "What I know about you:")


def facts_more(language: Language, count: int) -> str:
    """Return the line below a shortened list of facts; `count` is the number of facts left out."""
    return pick(language, f"… y {count} más.", f"… and {count} more.")


def how_to_forget(language: Language) -> str:
    """Say how to delete facts that a list shows."""
    return pick(
        language,
        "`/memory forget CLAVE` olvida lo que hay en una clave; "
        "`/memory history CLAVE` muestra qué hubo antes.",
        "`/memory forget KEY` forgets a key; `/memory history KEY` shows what it was before.",
    )


def memory_usage(language: Language) -> str:
    """Return how to use `/memory`."""
    return pick(
        language,
        "`/memory` muestra lo que sé de vos; `/memory forget CLAVE` olvida una clave; "
        "`/memory history CLAVE` muestra qué hubo antes.",
        "`/memory` shows what I know about you; `/memory forget KEY` forgets a key; "
        "`/memory history KEY` shows what it was before.",
    )


def facts_extracted(language: Language, count: int) -> str:
    """Say how many facts were extracted."""
    if count == 0:
        return pick(language, "No había nada nuevo para guardar.", "There was nothing new to save.")
    return pick(
        language,
        f"📝 Guardé {'1 hecho' if count == 1 else f'{count} hechos'} en memoria.",
        f"📝 Saved {'1 fact' if count == 1 else f'{count} facts'} to memory.",
    )


def still_extracting(language: Language) -> str:
    """Say that the extraction of facts continues in the background."""
    return pick(
        language,
        "Sigo leyendo lo que se habló; va a tardar un poco más.",
        "Still reading what was said; that will take a little longer.",
    )


def fact_columns(language: Language) -> tuple[str, str, str, str]:
    """Return the headings of the table of facts: key, value, origin, time."""
    return ("clave", "valor", "cómo", "cuándo") if language == "es" else ("key", "value", "how", "when")


def fact_origin(language: Language, explicit: bool, tainted: bool) -> str:
    """Return the origin of a fact: the user asked to remember it, or it was extracted from a conversation."""
    how = pick(language, "pedido", "asked") if explicit else pick(language, "deducido", "inferred")
    return f"{how}, web" if tainted else how
