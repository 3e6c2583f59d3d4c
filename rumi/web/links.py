"""Extraction of URLs from people's messages and from the Markdown of pages."""

import re
from typing import Final

from rumi.web.url import normal

# The characters that end a URL: white space, quotes, angle brackets, and full-width punctuation.
_NEVER: Final = r"\s<>\"`\x00-\x1f\x7f-\x9f«»“”‘’„。，、；：？！（）【】《》「」『』"
# Brackets that are opened and closed in a URL belong to it, as in [Mercury](https://…/Mercury_(planet)).
_WRITTEN: Final = re.compile(
    r"https?:(?://|\\/\\/)"
    rf"(?:[^{_NEVER}()\[\]{{}}]|\([^{_NEVER}()]*\)|\[[^{_NEVER}\[\]]*\]|\{{[^{_NEVER}{{}}]*\}})+",
    re.IGNORECASE,
)
_ENDS_A_SENTENCE: Final = ".,;:!?'*_~|…\\"
# In a JSON string, new lines, quotes and angle brackets may be escaped in this way.
_ENDS_IN_JSON: Final = re.compile(r"\\(?:[nrt]|u00(?:0a|0d|22|27|3c|3e))", re.IGNORECASE)
_ESCAPED: Final = re.compile(r"\\([!-/:-@\[-`{-~])")


def links_in(text: str) -> tuple[str, ...]:
    """Return the URLs in a text as normalized by `rumi.web.url.normal`, in order and without duplicates.

    A URL ends before white space, quotes, angle brackets, and a closing bracket whose opening bracket is
    before the URL. Marks that end a sentence or an emphasis are not part of a URL. Escapes of Markdown and
    JSON are removed. URLs that `normal` refuses are left out. The running time is proportional to the length
    of the text.
    """
    found = (_plain(written[0]) for written in _WRITTEN.finditer(text))
    return tuple(dict.fromkeys(url for url in found if url is not None))


def _plain(written: str) -> str | None:
    address = _ENDS_IN_JSON.split(written, maxsplit=1)[0].replace(r"\u0026", "&")
    return normal(_ESCAPED.sub(r"\1", address.rstrip(_ENDS_A_SENTENCE)))


# A URL without a scheme, as people write it: example.org, www.example.org/a?b. The name must have a dot, so
# localhost does not match.
_BARE: Final = re.compile(
    rf"(?<![\w@./:-])(?:[a-z0-9](?:[a-z0-9-]{{0,61}}[a-z0-9])?\.)+[a-z]{{2,24}}(?::\d{{1,5}})?(?:/[^{_NEVER}()\[\]{{}}]*)?"
    r"(?![\w@-])",
    re.IGNORECASE,
)


def urls_in_words(text: str) -> tuple[str, ...]:
    """Return the URLs in a person's message: those that `links_in` finds, and URLs without a scheme.

    For `example.org/a`, returns `https://example.org/a` and `http://example.org/a`.
    """
    bare = [found[0].rstrip(_ENDS_A_SENTENCE) for found in _BARE.finditer(text)]
    named = (normal(f"{scheme}://{address}") for address in bare for scheme in ("https", "http"))
    return tuple(dict.fromkeys([*links_in(text), *(url for url in named if url is not None)]))
