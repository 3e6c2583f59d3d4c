"""Collect the texts of the code into the catalogues of `rumi/locale`, and compile them.

Run by `make texts`. Each catalogue keeps its translations. New texts get an empty translation, and texts that
the code no longer has are removed.
"""

import ast
import io
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

ROOT: Final = Path(__file__).parents[2]
LOCALE: Final = Path("rumi", "locale")

FUNCTIONS: Final = {"gettext": 1, "ngettext": 1, "tr": 0, "ntr": 0, "say": 0, "Text": 0}
"""The functions that take a text, with the position of its English key."""

WIDTH: Final = 110

DATE: Final = datetime(2026, 11, 26, tzinfo=UTC)
"""The date in the catalogues' headers. It never changes, so that a catalogue only changes with its texts."""


class Found(NamedTuple):
    """A text of the code: its key, its plural if it has one, and the file that it is in."""

    key: str
    many: str
    file: str


def texts(root: Path = ROOT) -> Iterator[Found]:
    """Yield all texts of the package `rumi` below `root`."""
    trees = {
        str(path.relative_to(root)): ast.parse(path.read_text())
        for path in sorted((root / "rumi").rglob("*.py"))
        if "bundled" not in path.parts
    }
    errors = _errors(trees.values())
    for file, tree in trees.items():
        for node in ast.walk(tree):
            for key, many in _texts_in(node, errors):
                # A text of only placeholders needs no translation; the channels also `say` commands.
                if re.search(r"[^\W\d_]", re.sub(r"\{\w*\}", "", key)) and not key.startswith("/stop"):
                    yield Found(key, many, file)


def _errors(trees: "Iterable[ast.Module]") -> set[str]:
    """Return the names of the classes that derive from `RumiError`."""
    bases = {
        node.name: {getattr(base, "id", getattr(base, "attr", "")) for base in node.bases}
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    found = {"RumiError"}
    while more := {name for name, of in bases.items() if of & found} - found:
        found |= more
    return found


def _texts_in(node: ast.AST, errors: set[str]) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Call(func=function, args=args, keywords=keywords):
            name = getattr(function, "id", getattr(function, "attr", ""))
            given = {keyword.arg: keyword.value for keyword in keywords}
            if name in FUNCTIONS:
                yield from _called(name, args[FUNCTIONS[name] :], given)
            elif name in errors or name == "__init__":
                for argument in args[:3]:
                    yield from ((text, "") for text in _strings(argument) if " " in text)
            if "help" in given:
                yield from ((text, "") for text in _strings(given["help"]))
        case ast.FunctionDef(decorator_list=decorators) if any(map(_is_command, decorators)):
            yield from _help(ast.get_docstring(node) or "")
        case ast.Assign(targets=[ast.Name(id="COMMANDS")], value=ast.Dict(values=values)):
            for value in values:
                if isinstance(value, ast.Tuple):
                    yield from ((text, "") for text in _strings(value.elts[-1]))


def _called(name: str, args: list[ast.expr], given: dict[str | None, ast.expr]) -> Iterator[tuple[str, str]]:
    strings = [next(_strings(argument), "") for argument in args[:2]]
    match name, strings:
        case "ngettext" | "ntr", [one, many]:
            yield one, many
        case "Text", [key, *_]:
            yield key, next(_strings(given["many"]), "") if "many" in given else ""
        case _:
            for argument in args[:1]:
                yield from ((text, "") for text in _strings(argument))


def _strings(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=orelse):
            yield from _strings(body)
            yield from _strings(orelse)


def _is_command(decorator: ast.expr) -> bool:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return getattr(function, "attr", "") in ("command", "group")


def _help(text: str) -> Iterator[tuple[str, str]]:
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    for paragraph in paragraphs:
        yield paragraph, ""
    if paragraphs[0]:  # the list of commands shows the first sentence
        yield paragraphs[0].partition(". ")[0].removesuffix(".") + ".", ""


def faults(root: Path = ROOT) -> Iterator[str]:
    """Yield what is wrong with the catalogues below `root`: missing, unused and altered texts."""
    keys = {(found.key, found.many) if found.many else found.key for found in texts(root)}
    for language in languages(root):
        with _po(language, root).open("rb") as file:
            catalogue = read_po(file, locale=language)
        known = {message.id: message for message in catalogue if message.id}
        for key, message in known.items():
            if key not in keys:
                yield f"{language}: the code no longer has {key!r}"
            if wrong := placeholders(message.string) - placeholders(message.id):
                yield f"{language}: {key!r} has no {', '.join(sorted(wrong))}"
        if "_" not in language:
            translated = {key for key, message in known.items() if is_translated(message)}
            yield from (f"{language}: no translation of {key!r}" for key in keys - translated)
        if compiled(catalogue) != _po(language, root).with_suffix(".mo").read_bytes():
            yield f"{language}: rumi.mo is not made from rumi.po: make texts"


def placeholders(text: str | Iterable[str]) -> set[str]:
    """Return the placeholders in the forms of a text."""
    return {name for form in forms(text) for name in re.findall(r"\{\w+(?:!r)?\}", form)}


def forms(text: str | Iterable[str] | None) -> list[str]:
    """Return the forms of a text: one, or one for each plural form."""
    return [text or ""] if text is None or isinstance(text, str) else list(text)


def collected(language: str | None = None) -> Catalog:
    """Return a catalogue of all texts for a language, without translations."""
    catalogue = Catalog(
        locale=language,
        project="rumi",
        version="1",
        header_comment="# Texts of Rumi. `make texts` collects the keys from the code.",
        last_translator="Rumi",
        language_team="Rumi",
        msgid_bugs_address="Rumi",
        creation_date=DATE,
        revision_date=DATE,
        charset="utf-8",
        fuzzy=False,
    )
    for key, many, file in texts():
        catalogue.add((key, many) if many else key, locations=[(file, None)])
    return catalogue


def catalogue_of(language: str) -> Catalog:
    """Return a language's catalogue: each text of the code, with its translation.

    The catalogue of a region, such as `es_AR`, has only the texts that differ from the language's.
    """
    with _po(language).open("rb") as file:
        known = read_po(file, locale=language)
    catalogue = collected(language)
    for message in list(catalogue):
        if not message.id:
            continue
        translated = known.get(message.id)
        if translated is not None:
            message.string = translated.string
        if "_" in language and not is_translated(message):
            catalogue.delete(message.id)
    return catalogue


def is_translated(message: Message) -> bool:
    """Return True if all forms of a text have a translation."""
    return all(forms(message.string))


def compiled(catalogue: Catalog) -> bytes:
    """Return the compiled form of a catalogue, which the program reads."""
    file = io.BytesIO()
    write_mo(file, catalogue)
    return file.getvalue()


def written(catalogue: Catalog) -> bytes:
    """Return the source form of a catalogue, which translators edit."""
    file = io.BytesIO()
    write_po(file, catalogue, width=WIDTH, include_lineno=False, sort_by_file=True)
    return file.getvalue()


def languages(root: Path = ROOT) -> list[str]:
    """Return the languages that have a catalogue."""
    return sorted(path.parents[1].name for path in (root / LOCALE).glob("*/LC_MESSAGES/rumi.po"))


def _po(language: str, root: Path = ROOT) -> Path:
    return root / LOCALE / language / "LC_MESSAGES" / "rumi.po"


def main() -> None:
    """Update and compile all catalogues."""
    for language in languages():
        catalogue = catalogue_of(language)
        _po(language).write_bytes(written(catalogue))
        _po(language).with_suffix(".mo").write_bytes(compiled(catalogue))
        missing = sum(not is_translated(message) for message in catalogue if message.id)
        print(f"{language}: {len(catalogue)} texts, {missing} without a translation")  # noqa: T201


if __name__ == "__main__":
    main()
