"""Reader of Python literals and calls in texts of models.

Python's own parser is not used: a deeply nested text can end the process.
"""

import re
from math import isinf
from typing import Any, Final

MAX_DEPTH: Final = 50
MAX_LITERAL_CHARS: Final = 100_000
"""Longer texts are not read as Python."""

_SPACE: Final = re.compile(r"\s*")
_NAME: Final = re.compile(r"[A-Za-z_][\w.]{0,127}")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d{0,300})(?:\.\d{1,300})?(?:[eE][+-]?\d{1,3})?(?![\w.])")
_STRING: Final = re.compile(
    r"""([urUR]?)(?:'''((?:[^'\\]|\\.|'(?!''))*)'''|\"{3}((?:[^"\\]|\\.|"(?!""))*)\"{3}"""
    r"""|'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4}|.)", re.DOTALL
)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "f": "\f", "\n": ""}
_KEPT: Final = frozenset("\\'\"")
_CONSTANTS: Final = {"True": True, "False": False, "None": None, "true": True, "false": False, "null": None}


class LiteralReader:
    """Reader of one text, from the index `at`, which each method moves behind what it has read.

    The methods raise `ValueError` for anything else than a literal, or a call with literals.
    """

    def __init__(self, text: str, at: int = 0) -> None:
        if len(text) - at > MAX_LITERAL_CHARS:
            raise ValueError("too long")
        self._text = text
        self.at = at

    def value(self, depth: int = 0) -> Any:
        """Read a literal that has a form in JSON."""
        if depth > MAX_DEPTH:
            raise ValueError("too deep")
        self._skip()
        begin = self._text[self.at : self.at + 1]
        if begin == "{":
            return dict(self._items("}", depth, pairs=True))
        if begin in ("[", "("):
            return self._items("]" if begin == "[" else ")", depth)
        if (string := _STRING.match(self._text, self.at)) is not None:
            self.at = string.end()
            body = next(group for group in string.groups()[1:] if group is not None)
            return body if string[1] in ("r", "R") else _ESCAPE.sub(_unescaped, body)
        if (number := _NUMBER.match(self._text, self.at)) is not None:
            self.at = number.end()
            value = float(number[0])
            if isinf(value):
                raise ValueError("too large")
            return value if set(number[0]) & set(".eE") else int(number[0])
        name = self._name()
        if name not in _CONSTANTS:
            raise ValueError("not a literal")
        return _CONSTANTS[name]

    def call(self) -> tuple[str, dict[str, Any]]:
        """Read a call such as `bash(command="ls")`; return its name and its arguments, which are named."""
        name = self._name()
        self._need("(")
        if name == "print":  # Gemma's `tool_code`
            inner = self.call()
            self._need(")")
            return inner
        arguments: dict[str, Any] = {}
        while not self._takes(")"):
            key = self._name()
            self._need("=")
            arguments[key] = self.value(1)
            if not self._takes(","):
                self._need(")")
                break
        return name.removeprefix("default_api.").removesuffix(".call"), arguments

    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """Read one call, or a list of calls."""
        if not self._takes("["):
            return [self.call()]
        found = [self.call()]
        while self._takes(","):
            found.append(self.call())
        self._need("]")
        return found

    def _items(self, end: str, depth: int, *, pairs: bool = False) -> list[Any]:
        self.at += 1
        items: list[Any] = []
        while not self._takes(end):
            item = self.value(depth + 1)
            if pairs:
                if not isinstance(item, str):
                    raise ValueError("a key is not text")
                self._need(":")
                item = (item, self.value(depth + 1))
            items.append(item)
            if not self._takes(","):
                self._need(end)
                break
        return items

    def _name(self) -> str:
        self._skip()
        if (name := _NAME.match(self._text, self.at)) is None:
            raise ValueError("not a name")
        self.at = name.end()
        return name[0]

    def _takes(self, sign: str) -> bool:
        self._skip()
        if not self._text.startswith(sign, self.at):
            return False
        self.at += 1
        return True

    def _need(self, sign: str) -> None:
        if not self._takes(sign):
            raise ValueError(f"{sign} is missing")

    def _skip(self) -> None:
        space = _SPACE.match(self._text, self.at)
        self.at = space.end() if space else self.at


def literal(text: str) -> Any:
    """Return the value of a Python literal; None if the text is anything else."""
    try:
        reader = LiteralReader(text)
        value = reader.value()
    except ValueError:
        return None
    return None if text[reader.at :].strip() else value


def _unescaped(escape: re.Match[str]) -> str:
    sign = escape[1]
    if len(sign) > 1:
        return chr(int(sign[1:], 16))
    return _ESCAPED.get(sign, sign if sign in _KEPT else escape[0])
