"""The table of patterns for secrets: keys of known services, private keys, tokens, named passwords.

Logs, the audit log, recordings, reports and errors hide text that matches a pattern (`rumi.platform.redact`);
the memory refuses to store such text (`rumi.memory.secrets`). Both use this one table, so that a new pattern
applies everywhere.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

HIDDEN: Final = "[hidden]"

_WHOSE: Final = {
    "key": "api|private|secret|access|account|encryption|signing|subscription|master",
    "token": "access|auth|api|bearer|bot|refresh|session|private|secret|subscription",
    "secret": "client|app|consumer|shared|webhook",
}
"""Words that name a secret only after certain other words, such as `key` in `api key` or `apikey`."""
_BY_ITSELF: Final = (
    r"pass[ _-]?(?:words?|phrases?|codes?)|passwd|(?<![a-z])pwd|contrase[nñ]as?|credentials?|credenciales"
    r"|(?<![a-z])cv[vc]2?|seed[ _-]phrase|connection[ _-]?string"
)
CLEAR: Final = "|".join((_BY_ITSELF, *(rf"(?:{whose})[ _-]?{word}s?" for word, whose in _WHOSE.items())))
"""Pattern of words that name a secret."""
_BEGINNINGS: Final = ("pass", "pwd", "contrase", "credenc", "credential", "cvv", "cvc", "seed", "connection")


@dataclass(frozen=True, slots=True)
class Form:
    """A pattern for one kind of secret. Only the group `value` of the regular expression is hidden.

    `needles` are plain strings. The regular expression is tried only where a needle occurs, because searching
    for plain strings is a hundred times faster. If `exact` is false, needles are in lower case, and case is
    ignored. If `anywhere` is true, one needle in the text suffices, and the expression is searched in the
    whole text. `accepts` is an additional check of a match.
    """

    needles: tuple[str, ...]
    pattern: re.Pattern[str]
    accepts: Callable[[re.Match[str]], bool] = lambda _: True
    exact: bool = False
    anywhere: bool = False

    def hide(self, text: str, within: str, needles: Sequence[str]) -> str:
        """Replace each secret of this form with `[hidden]`.

        `within` is the text in which needles are searched: the text itself, or the text in lower case.
        """
        parts: list[str] = []
        done = 0
        for match in self._matches(text, within, needles):
            begin, end = match.span("value")
            # A value that begins with `[hidden]` was replaced before: hiding must be idempotent.
            if begin >= done and not match["value"].startswith(HIDDEN) and self.accepts(match):
                parts += (text[done:begin], HIDDEN)
                done = end
        return "".join((*parts, text[done:])) if parts else text

    def _matches(self, text: str, within: str, needles: Sequence[str]) -> Iterator[re.Match[str]]:
        if self.anywhere:
            yield from self.pattern.finditer(text)
            return
        done = 0
        for position in _positions(within, needles):
            if position >= done and (match := self.pattern.match(text, position)) is not None:
                done = match.end() if self.accepts(match) else done
                yield match


def _positions(within: str, needles: Sequence[str]) -> list[int]:
    positions: list[int] = []
    for needle in needles:
        position = within.find(needle)
        while position >= 0:
            positions.append(position)
            position = within.find(needle, position + 1)
    return sorted(positions)


class SecretTable:
    """Hides secrets of all forms. Most texts contain no needle; these are only searched for needles."""

    def __init__(self, forms: Sequence[Form]) -> None:
        self.forms = tuple(forms)
        self._exact = self._needles(exact=True)
        self._others = self._needles(exact=False)

    def _needles(self, *, exact: bool) -> tuple[tuple[str, int], ...]:
        return tuple(
            (needle, form_index)
            for form_index, form in enumerate(self.forms)
            if form.exact == exact
            for needle in form.needles
        )

    def hide(self, text: str) -> str:
        """Replace all secrets that match a form of the table with `[hidden]`."""
        lowered = _lowered(text)
        needles: dict[int, list[str]] = {}
        for needle, form_index in [entry for entry in self._exact if entry[0] in text]:
            needles.setdefault(form_index, []).append(needle)
        for needle, form_index in [entry for entry in self._others if entry[0] in lowered]:
            needles.setdefault(form_index, []).append(needle)
        for form_index in sorted(needles):
            form = self.forms[form_index]
            hidden = form.hide(text, text if form.exact else lowered, needles[form_index])
            if hidden is not text:
                text, lowered = hidden, _lowered(hidden)
        return text


def _lowered(text: str) -> str:
    """Return the text in lower case, with each character at the same index as before."""
    # Some characters become several in lower case: for those only the first one is taken.
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(c.lower()[0] for c in text)


def made_up(word: str) -> bool:
    """Return True if a word looks like a password: it has a digit, a punctuation mark, or capitals inside."""
    word = word.strip("\"'“”«»`.,;:()")
    return len(word) >= 4 and not (word.isalpha() and (word[1:].islower() or word.isupper()))


def _key(*prefixes: str, rest: str) -> Form:
    """Return a form that matches API keys with one of the given prefixes."""
    begin = "|".join(map(re.escape, prefixes))
    return Form(prefixes, re.compile(rf"(?<![A-Za-z0-9])(?P<value>(?:{begin}){rest})"), exact=True)


def _form(
    *needles: str,
    pattern: str,
    accepts: Callable[[re.Match[str]], bool] = lambda _: True,
    anywhere: bool = False,
) -> Form:
    return Form(needles, re.compile(pattern, re.IGNORECASE), accepts, anywhere=anywhere)


_WORD: Final = "[A-Za-z0-9]"
_SIGNED: Final = "[A-Za-z0-9_-]"

_KEYS: Final = (
    _key("gsk_", "nvapi-", "pplx-", "r8_", "csk-", "fw_", rest=f"{_SIGNED}{{8,}}"),
    _key("tvly-", rest=f"{_SIGNED}{{8,}}"),
    _key("sk-", "xai-", rest=f"{_SIGNED}{{16,}}"),
    _key("AKIA", "ASIA", "ABIA", "ACCA", rest=r"[0-9A-Z]{16}(?![A-Za-z0-9])"),
    _key("ghp_", "gho_", "ghu_", "ghs_", "ghr_", rest=f"{_WORD}{{16,}}"),
    _key("github_pat_", rest="[A-Za-z0-9_]{16,}"),
    _key("syt_", rest="[A-Za-z0-9_]{24,}"),  # of Synapse
    _key("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glsoat-", rest="[A-Za-z0-9_.-]{16,}"),
    _key("xox", rest=r"(?:e\.xox)?[abcdeprs]-[\w%.-]{8,}"),
    _key("xapp-", rest=r"[\w%.-]{8,}"),
    _key("AIza", rest=f"{_SIGNED}{{30,}}"),
    _key("ya29.", "GOCSPX-", rest=f"{_SIGNED}{{16,}}"),
    _key(
        "hf_",
        "npm_",
        "dop_v1_",
        "doo_v1_",
        "shpat_",
        "shpss_",
        "lin_api_",
        "dckr_pat_",
        rest=f"{_SIGNED}{{20,}}",
    ),
    _key("pypi-", rest=f"[A-Za-z0-9_]{{16,}}{_SIGNED}*"),
    _key("SG.", rest=rf"{_SIGNED}{{16,}}(?:\.{_SIGNED}+)?"),
    Form(
        ("_live_", "_test_"),
        re.compile(rf"(?<![A-Za-z0-9])(?P<value>[srp]k_(?:live|test)_{_WORD}{{8,}})"),
        exact=True,
        anywhere=True,
    ),
    _key("whsec_", rest="[A-Za-z0-9+/=]{16,}"),
    _key("hvs.", "hvb.", rest=f"{_SIGNED}{{20,}}"),
    _key("AGE-SECRET-KEY-1", rest="[A-Z0-9]{20,}"),
    _key("eyJ", rest=rf"{_SIGNED}{{8,}}\.{_SIGNED}{{8,}}(?:\.{_SIGNED}*){{0,3}}"),  # JWT, JWE
)

# Telegram's tokens. A line number before a hash would have the same form, so hashes are excluded.
_TELEGRAM: Final = Form(
    (":", "%3a"),
    re.compile(
        # The character class comes before its lookbehind, because `re` then searches three times as fast.
        r"(?P<value>[0-9](?<![0-9]{2})[0-9]{4,15}(?::|%3[Aa])"
        r"(?!(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64})\b)[A-Za-z0-9_-]{30,})"
    ),
    anywhere=True,
)

_BREAK: Final = r"(?:\s|\\+[nrt])"
_LINE: Final = r"(?:[A-Za-z0-9+/]{16,}={0,2}|[A-Za-z-]{3,20}: [^\n\\]{1,80})"
_GAP: Final = rf"(?:{_BREAK}|[\"'>|+#]|(?<=\s)[0-9]{{1,6}}(?=[\s:|→])|(?<=[0-9])[:|→])"
"""Pattern of text between the lines of a private key: (escaped) line ends, quotation marks, line numbers."""

_PEM: Final = (
    # First a whole key, or one that is cut off at its end, with a part of its last line; then one that is cut
    # off at its beginning.
    _form(
        "-----begin ",
        pattern=rf"(?P<value>-----BEGIN [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?(?:-----)?"
        rf"(?:(?:(?!-----)[\s\S]){{0,20000}}-----END [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?(?:-----)?"
        rf"|(?>(?:{_GAP}{{1,40}}{_LINE}){{0,400}})(?:{_GAP}{{1,40}}[A-Za-z0-9+/=]+)?))",
    ),
    _form(
        "private key-----",
        anywhere=True,
        pattern=rf"(?P<value>(?<![A-Za-z0-9+/=])(?>(?:[A-Za-z0-9+/]{{4,}}={{0,2}}{_GAP}{{1,40}}){{1,400}})"
        rf"-----END [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----)",
    ),
)

_NEVER: Final = r"(?!\$|%\(|\{|\*{3}|…|\.{3}|(?:null|none|true|false|undefined|nil)\b)"
"""Negative lookahead that excludes references to variables, and words for a missing value such as `null`."""
_NAME: Final = "|".join(
    (
        _BY_ITSELF,
        *(
            rf"(?:{'|'.join(rf'(?<={owner})|(?<={owner}[ _-])' for owner in whose.split('|'))}){word}s?"
            for word, whose in _WHOSE.items()
        ),
    )
)
"""Like `CLEAR`, but a match starts at the last word, the needle; lookbehinds match the words before it."""
_QUOTED: Final = (
    rf"""(?P<quote>\\{{0,4}}["'`]){_NEVER}(?P<value>(?:(?!(?P=quote))(?:\\.|[^\n\\])){{1,1000}})"""
)
_UNQUOTED: Final = (
    rf"""{_NEVER}(?:[^\s"'`<>,;&\\]|[,;&](?![\w .-]{{1,40}}=|[\s"'\\]|$)|\\(?![nrt"'\\])){{1,4096}}"""
)
_SEP: Final = r"""\\{0,4}["'`*]{0,3}\s{0,9}(?::=|=>|[:=](?!=))\s{0,9}"""


def _is_value(match: re.Match[str]) -> bool:
    """Return True unless the matched value is a path, or an ordinary word of a sentence."""
    value, rest = match["value"], match.string[match.end("value") : match.end("value") + 40]
    if _is_path(match):
        return False
    ordinary = _ORDINARY.fullmatch(value) is not None or match["name"].lower().endswith("s")
    return not ordinary or made_up(value) or _FOLLOWS.match(rest) is not None


def _is_stated(match: re.Match[str]) -> bool:
    """Return True if the matched sentence states the value of a secret."""
    about = ABOUT_ONE.search(match.string, match.start(), match.start("value"))
    return about is None and not _is_path(match) and made_up(match["value"])


def _is_path(match: re.Match[str]) -> bool:
    return match["name"].lower() == "pwd" and match["value"][:1] in "/~.-"


ABOUT_ONE: Final = re.compile(r"manager|gestor|administrador|policy|pol[ií]tica", re.IGNORECASE)
"""Pattern of words which show that a text mentions secrets but contains none: `password manager`."""
_ORDINARY: Final = re.compile(
    r"(?:must|should|may|can|has|have|is|are|was|not|no|the|an?|your|this|that|for|to|in|of|and|or|from|with|required|"
    r"optional|missing|invalid|incorrect|wrong|expired|el|la|los|las|su|tu|un|una|debe|de|es|son|para|en|y|o)[.,;:]?",
    re.IGNORECASE,
)
_FOLLOWS: Final = re.compile(r"""[)\]}.]{0,9}(?:\s{0,9}(?:$|[\n"'`&,;<#]|\\)|[&,;]|\s{1,9}[\w-]{1,40}=)""")
"""Pattern of the text that follows a value which is a complete field: the end of a line or field."""


def _strong(match: re.Match[str]) -> bool:
    """Return True if the value of an ambiguous name, such as `token`, looks like a password or a PIN."""
    value, name = match["value"][:64], match["name"].lower()
    if name == "pin":
        return re.fullmatch(r"[0-9]{4,8}", value) is not None
    return len(value) >= 6 and any(map(str.isdigit, value)) and any(map(str.isalpha, value))


_HEADER_VALUE: Final = r"""[^\s"'`,;<>\\]{1,4096}"""
_QUERY: Final = "api_?key|key|access_token|token|auth|secret|password|passwd|pass|pwd|sig|signature"

_NAMED: Final = (
    _form(
        *("bearer", "basic"),
        pattern=r"(?<!\w)(?:Bearer|Basic)\s+(?P<value>[A-Za-z0-9+/_.~=-]{8,4096})",
        accepts=lambda match: made_up(match["value"]),
    ),
    _form("=", anywhere=True, pattern=rf"""[?&;](?:{_QUERY})=(?P<value>[^\s"'&,;<>()@\\]+)"""),
    _form(
        "authorization",
        pattern=rf"""(?<!\w)Authorization\\{{0,4}}["']?\s{{0,9}}[:=]\s{{0,9}}\\{{0,4}}["']?"""
        rf"(?P<scheme>(?:Bearer|Basic|Bot|Token|Digest|ApiKey|Negotiate)\s+)?(?P<value>{_HEADER_VALUE})",
        accepts=lambda match: match["scheme"] is not None or made_up(match["value"]),
    ),
    _form(
        "cookie",
        pattern=r"""(?<![^\W-])Cookie["']?\s{0,9}:\s{0,9}["']?(?P<value>[\w.-]{1,60}=[^\n"']{8,4096})""",
    ),
    _form("://", pattern=r"""://(?P<value>[^/\s@:"'`<>]{0,200}:[^/\s"'`<>]{1,500})@"""),
    _form(
        *("curl", "wget"),
        pattern=r"""(?<!\w)(?:curl|wget)\b[^\n|;&]{0,300}?\s(?:-u|--user|--proxy-user)[ =]["']?"""
        r"""(?P<value>[^\s:"']{1,200}:[^\s"']{1,500})""",
    ),
    _form(
        "--",
        pattern=r"(?<![\w-])--(?:[a-z]{1,20}-){0,5}(?:password|passwd|passphrase|token|secret|api-?key)\s+"
        r"""["']?(?P<value>[^\s"'-][^\s"']{0,4096})""",
    ),
    _form(
        *(*_BEGINNINGS, *_WHOSE),
        pattern=rf"(?P<name>{_NAME}){_SEP}{_QUOTED}",
    ),
    _form(
        *(*_BEGINNINGS, *_WHOSE),
        pattern=rf"(?P<name>{_NAME}){_SEP}(?P<value>{_UNQUOTED})",
        accepts=_is_value,
    ),
    _form(
        *("token", "secret", "clave", "pin", "pass"),
        pattern=rf"(?<![a-z])(?P<name>token|secreto?|clave|pin|pass){_SEP}(?:\\{{0,4}}[\"'`])?"
        r"""(?=[^\s"'`]{0,63}[0-9])"""
        rf"(?P<value>{_UNQUOTED})",
        accepts=_strong,
    ),
    _form(
        *(*_BEGINNINGS, *_WHOSE),
        pattern=rf"(?P<name>{_NAME})\b[^:=.,;\n]{{0,40}}?(?:[:=]|\b(?:is|are|es|son)\b)[\s:=]*"
        r"""\\{0,4}["'`“«]{0,3}(?!\$|…|\.{3})(?P<value>[^\s"'`”»\\]{1,4096})""",
        accepts=_is_stated,
    ),
)


def is_card(text: str) -> bool:
    """Return True if the text is a card number: an issuer's prefix and a valid ISO/IEC 7812 check digit."""
    digits = [int(c) for c in text if c.isdigit()]
    if _ISSUER.fullmatch("".join(map(str, digits))) is None:
        return False
    doubled = [d if index % 2 == 0 else sum(divmod(2 * d, 10)) for index, d in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


_ISSUER: Final = re.compile(
    r"4(?:.{12}|.{15}|.{18})|(?:5[1-5]|2[2-7]|35).{14}|3[47].{13}|3[068].{12}|6.{15,18}"
)
"""Pattern of the issuers' card number prefixes and lengths. Telephone numbers do not match it."""

TABLE: Final = SecretTable(
    (
        *_PEM,
        *_KEYS,
        _TELEGRAM,
        *_NAMED,
        Form(
            tuple("3456"),
            re.compile(r"(?P<value>[3-6](?<![\w.,+-].)[0-9](?:[ -]?[0-9]){11,17})(?![\w])"),
            lambda match: is_card(match["value"]),
            anywhere=True,
        ),
    )
)

_ALONE: Final = re.compile(
    r"""\s*(?:export\s+)?(?:[A-Z][A-Z0-9_]*\s*=\s*)?["'`]?(?P<value>[^\s"'`]{12,4096})["'`]?\s*"""
)


def only_word(text: str) -> str:
    """Return the word if a text is only one, perhaps quoted or assigned: `export NAME=…`; otherwise ""."""
    alone = _ALONE.fullmatch(text)
    return "" if alone is None else alone["value"]


def only_secret(text: str) -> str:
    """Return the secret if a text is nothing but one, such as a pasted API key; otherwise an empty text."""
    word = only_word(text)
    return word if word and TABLE.hide(word) == HIDDEN else ""
