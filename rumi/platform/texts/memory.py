"""Texts about the memory, for people and for prompts."""

from collections.abc import Sequence

from rumi.texts import Language, gettext, ngettext


def memory_title(language: Language) -> str:
    """Return the line above the facts in the prompt."""
    return gettext(language, "What you know about the user:")


def facts_left_out(language: Language, count: int) -> str:
    """Return the line that says how many facts a list leaves out. The line does not look like a fact."""
    if count == 1:
        return gettext(language, "(1 more fact: recall finds it)")
    return gettext(language, "({count} more facts: recall finds them)", count=count)


def remembered(
    language: Language, key: str, value: str, others: Sequence[str], *, replaced: bool = False
) -> str:
    """Say that a fact was stored. `others` are the key's other values or, if `replaced`, its old ones."""
    done = gettext(language, "📝 Saved: {key}: {value}.", key=key, value=value)
    if not others:
        return done
    listed = "; ".join(others)
    if replaced:
        return gettext(language, "{done} Before: {listed}.", done=done, listed=listed)
    return gettext(language, "{done} Also under {key}: {listed}.", done=done, key=key, listed=listed)


def forgotten(language: Language, key: str, count: int) -> str:
    """Say that the facts with a key were deleted, or that there were none."""
    if count == 0:
        return gettext(language, "I know nothing under {key}.", key=key)
    return ngettext(
        language, "🗑 Forgot {count} fact: {key}.", "🗑 Forgot {count} facts: {key}.", count, key=key
    )


def facts_known(language: Language, count: int) -> str:
    """Return the line above a list of facts that a person reads."""
    if count == 0:
        return gettext(language, "I know nothing about you yet.")
    return gettext(language, "What I know about you:")


def facts_extracted(language: Language, count: int) -> str:
    """Say how many facts were extracted."""
    if count == 0:
        return gettext(language, "There was nothing new to save.")
    return ngettext(language, "📝 Saved {count} fact to memory.", "📝 Saved {count} facts to memory.", count)


def fact_columns(language: Language) -> tuple[str, str, str, str]:
    """Return the headings of the table of facts: key, value, origin, time."""
    return (
        gettext(language, "key"),
        gettext(language, "value"),
        gettext(language, "how"),
        gettext(language, "when"),
    )


def fact_origin(language: Language, explicit: bool, tainted: bool) -> str:
    """Return the origin of a fact: the user asked to remember it, or it was extracted from a conversation."""
    how = gettext(language, "asked") if explicit else gettext(language, "inferred")
    return f"{how}, web" if tainted else how
