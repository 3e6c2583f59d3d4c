"""Detection of the word in a message that names a tool's action: “make” or “creá” names `create_branch`."""

import re
from typing import Final

from rumi.agent.permissions.destinations import is_noun, words_of
from rumi.platform.unaccented import unaccented

_WORD: Final = re.compile(r"[^\W\d_]+")

_SYNONYMS: Final = tuple(
    frozenset(words.split())
    for words in (
        "add create insert make agrega agregar anade anadir crea crear haz hace hacer",
        "change edit modify update actualiza actualizar cambia cambiar edita editar modifica modificar",
        "comment comenta comentar",
        "forward reenvia reenviar",
        "invite invita invitar",
        "move mover mueve move",
        "pay paga pagar",
        "post publish publica publicar",
        "rename renombra renombrar",
        "reply answer contesta contestar responde responder",
        "send envia enviar manda mandar",
        "share comparte compartir comparti",
        "write escribe escribi escribir",
    )
)
"""Sets of synonyms for an action, in English and Spanish, without accents.

They contain no nouns, and no words for actions that are only similar.
"""

_DESTROYS_WORDS: Final = (
    "archive borra borrar buy cancel cancela cancelar clear compra comprar delete destroy drop elimina"
    " eliminar erase kill order paga pagar pay prune purchase purge quita quitar refund remove reset revoke"
    " transfer transferir trash truncate uninstall unsubscribe vacia vaciar wipe"
)
_DESTROYS: Final = frozenset(_DESTROYS_WORDS.split())
"""Words of tools' names that say that a call destroys something or spends money."""

_ENDINGS: Final = ("", "d", "e", "ed", "es", "ing", "s")


def action_word_in(tool: str, message: str) -> str:
    """Return the word in a message that names a tool's action; empty if the message has no such word.

    If no word of the tool's name has synonyms, the message must contain the name's first word that is not a
    noun.
    """
    named = words_of(tool.rpartition("__")[2])
    verbs = [word for word in named if not is_noun(word)]
    known = next((alike for verb in verbs for alike in _SYNONYMS if verb in alike), frozenset(verbs[:1]))
    wanted = {form for word in known for form in _forms(word)}
    return next((word for word in _WORD.findall(unaccented(message)) if word in wanted), "")


def destroys_by_name(tool: str) -> bool:
    """Return True if a tool's name says that its calls destroy something or spend money."""
    return not _DESTROYS.isdisjoint(map(unaccented, words_of(tool.rpartition("__")[2])))


def _forms(word: str) -> set[str]:
    stem = word.removesuffix("e")
    return {word, *(f"{stem}{ending}" for ending in _ENDINGS)}
