"""Fonts of the sandbox, for charts and documents: those of matplotlib, and some of this host, by name.

matplotlib brings DejaVu, which has Latin, Greek and Cyrillic letters. Other scripts come from the host, if
their fonts are installed there; Debian's packages `fonts-noto-core` and `fonts-noto-cjk` have them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from runner.python import RootfsEntry

HOST_FONTS: Final = (Path("/usr/share/fonts"), Path("/usr/local/share/fonts"))
PLACE: Final = Path("usr/share/fonts/office")
"""The folder of all fonts in the sandbox. The Dockerfile and the prompt `office` name it too."""

DEJAVU: Final = Path("matplotlib/mpl-data/fonts/ttf")
SETTINGS: Final = Path("etc/matplotlibrc")
FAMILIES: Final = {
    "NotoSansArabic": "Noto Sans Arabic",
    "NotoSansHebrew": "Noto Sans Hebrew",
    "NotoSansDevanagari": "Noto Sans Devanagari",
    "NotoSansBengali": "Noto Sans Bengali",
    "NotoSansTamil": "Noto Sans Tamil",
    "NotoSansThai": "Noto Sans Thai",
    "NotoSansGeorgian": "Noto Sans Georgian",
    "NotoSansArmenian": "Noto Sans Armenian",
    "NotoSansCJK": "Noto Sans CJK JP",
    "NotoEmoji": "Noto Emoji",
}
"""Families by the beginning of their files' names, in the order in which matplotlib looks for a letter."""

MORE: Final = ("NotoSans-", "NotoSerif-", "LiberationSans-", "LiberationSerif-", "NotoColorEmoji")
STYLES: Final = ("Regular", "Bold")


def font_entries(site: Path) -> Iterator[RootfsEntry]:
    """Yield the fonts, and settings of matplotlib that let it take a letter from any of them.

    `site` is the folder of the installed packages; without matplotlib in it, there are no fonts.
    """
    dejavu = sorted((site / DEJAVU).glob("DejaVu*.ttf"))
    if not dejavu:
        return
    for path in dejavu:
        yield RootfsEntry(PLACE / path.name, path, linked=True)
    found = _host_fonts()
    for name, path in sorted(found.items()):
        yield RootfsEntry(PLACE / name, path)
    there = {name.partition("-")[0].partition(".")[0] for name in found}
    families = ["DejaVu Sans", *(FAMILIES[name] for name in FAMILIES if name in there)]
    yield RootfsEntry(SETTINGS, content=f"font.family: {', '.join(families)}\n".encode())


def _host_fonts() -> dict[str, Path]:
    """Return the wanted fonts of this host by the names of their files."""
    found: dict[str, Path] = {}
    for folder in HOST_FONTS:
        for path in sorted(folder.rglob("*.[to]t[fc]")):
            family, _, style = path.stem.partition("-")
            wanted = family in FAMILIES or path.name.startswith(MORE)
            if wanted and style in ("", *STYLES) and path.is_file():
                found.setdefault(path.name, path)
    return found
