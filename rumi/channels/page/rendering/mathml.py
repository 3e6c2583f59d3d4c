"""TeX formulas as MathML. The converter is compiled code that recurses: hostile formulas are not given to it.

The result has no `style` attributes, which the page's content policy blocks: alignment and rules of tables
become classes, colours become the attributes of MathML.
"""

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from math_core import LatexToMathML

TAGS: Final = {
    *("math", "mrow", "mi", "mn", "mo", "ms", "mtext", "mspace", "mfrac", "msqrt", "mroot", "mstyle"),
    *("mpadded", "mphantom", "msub", "msup", "msubsup", "munder", "mover", "munderover", "mmultiscripts"),
    *("mprescripts", "mtable", "mtr", "mtd", "menclose"),
}

ATTRIBUTES: Final = {
    "math": {"display"},
    "mi": {"mathvariant"},
    "mo": {"form", "fence", "separator", "stretchy", "symmetric", "largeop", "movablelimits"}
    | {"lspace", "rspace", "minsize", "maxsize"},
    "mfrac": {"linethickness"},
    "mspace": {"width", "height", "depth"},
    "mpadded": {"width", "height", "depth", "lspace", "voffset"},
    "mover": {"accent"},
    "munder": {"accentunder"},
    "munderover": {"accent", "accentunder"},
    "menclose": {"notation"},
} | {name: {"displaystyle", "scriptlevel", "mathcolor", "mathbackground"} for name in ("mstyle", "mrow")}
ATTRIBUTES["mtable"] = {"displaystyle", "scriptlevel"}

CELL_CLASSES: Final = {"left", "right", "gap", "line-left", "line-right", "line-top", "line-bottom"}
"""Classes of `mtd`: alignment, a gap before the cell, and the rules of an array."""

_DEEPEST: Final = 250
"""Maximum nesting of a formula. The converter takes about 1 KB of the stack for a level."""

_MOST_OUTPUT: Final = 60_000
_NESTING: Final = re.compile(r"[\\\[^_]")
_BRACKETS: Final = re.compile(r"(\{|\\left(?![a-z])|\\begin)|(\}|\\right(?![a-z])|\\end)")
_CELLS: Final = re.compile(r"\\\\|&")
_DEFINITIONS: Final = re.compile(
    r"\\(?:[egx]?def|let|(?:re)?newcommand|providecommand|newenvironment)(?![A-Za-z])"
)
_DROPPED: Final = re.compile(
    r"\\(?:nonumber|notag)(?![A-Za-z])|\\label\{[^{}]*\}|\\(?:begin|end)\{equation\*?\}"
)
_TAG: Final = re.compile(r"\\tag\*?\{([^{}]*)\}")
_ENVIRONMENT: Final = re.compile(r"\\(begin|end)\{(align|gather|eqnarray)(?:ed|at)?\*?\}")
_STYLE: Final = re.compile(r' style="([^"]*)"')
_DECLARATIONS: Final = {
    "text-align: left": "left",
    "text-align: right": "right",
    "padding-left:1em": "gap",
    "border-left": "line-left",
    "border-right": "line-right",
    "border-top": "line-top",
    "border-bottom": "line-bottom",
}


@lru_cache(maxsize=256)
def mathml(tex: str, display: bool) -> str | None:
    """Return a formula as MathML; None if it cannot be converted. The result is not sanitised."""
    from math_core import LatexError

    if _deepest(tex) > _DEEPEST or _DEFINITIONS.search(tex):
        return None
    try:
        found = _converter().convert_with_local_state(_usual(tex), displaystyle=display)
    except LatexError:
        return None
    return _STYLE.sub(_without_style, found) if len(found) <= _MOST_OUTPUT else None


def _deepest(tex: str) -> int:
    """Return an upper bound of a formula's nesting: a command may be the argument of the one before it."""
    depths, deepest = {"{": 0, "\\l": 0, "\\b": 0}, 0
    closed = {"}": "{", "\\r": "\\l", "\\e": "\\b"}
    for opening, closing in _BRACKETS.findall(tex):
        if opening:
            depths[opening[:2]] += 1
            deepest = max(deepest, sum(depths.values()))
        else:
            kind = closed[closing[:2]]
            depths[kind] = max(0, depths[kind] - 1)
    return deepest + max(len(_NESTING.findall(cell)) for cell in _CELLS.split(tex))


def _usual(tex: str) -> str:
    """Return a formula with the environments for single formulas: numbers of equations are left out."""
    tex = _TAG.sub(r"\\qquad\\text{(\1)}", _DROPPED.sub("", tex))
    tex = _ENVIRONMENT.sub(
        lambda found: f"\\{found[1]}{{{'gathered' if found[2] == 'gather' else 'aligned'}}}", tex
    )
    if "\\\\" in tex and "\\begin" not in tex:
        name = "aligned" if "&" in tex else "gathered"
        tex = f"\\begin{{{name}}}{tex}\\end{{{name}}}"
    return tex


def _without_style(found: re.Match[str]) -> str:
    classes, attributes = [], ""
    for declaration in found[1].split(";"):
        name, _, value = declaration.partition(":")
        if name in ("color", "background-color", "background"):
            attributes += f' math{name.removesuffix("-color")}="{value.strip()}"'
        elif known := _DECLARATIONS.get(declaration.strip()) or _DECLARATIONS.get(name.strip()):
            classes.append(known)
    return (f' class="{" ".join(classes)}"' if classes else "") + attributes


@cache
def _converter() -> "LatexToMathML":
    from math_core import LatexToMathML

    return LatexToMathML(max_expansions=0)
