"""What is said while sessions are learned from."""

from rumi.texts.language import Language, pick


def saving(language: Language) -> str:
    """Somebody leaves, and what is worth remembering of their session is still being saved."""
    return pick(language, "Guardando lo que conviene recordar…", "Saving what is worth remembering…")
