"""Comparison of words that people write with or without capitals and accents."""

from unicodedata import combining, normalize


def unaccented(text: str) -> str:
    """Return a text casefolded and without accents. Full-width letters and ligatures become plain letters."""
    plain = text.casefold()
    if plain.isascii():
        return plain
    return "".join(letter for letter in normalize("NFKD", plain) if not combining(letter))
