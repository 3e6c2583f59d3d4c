"""Wheels, and a folder of them instead of a package index."""

import base64
import hashlib
import io
import zipfile
from pathlib import Path

import pytest


def wheel(name: str, main: str, more: dict[str, str] | None = None, version: str = "1.0") -> bytes:
    """A wheel with a package that prints something when it is run, and more files."""
    info = f"{name}-{version}.dist-info"
    files = {
        **(more or {}),
        f"{name}/__init__.py": "",
        f"{name}/__main__.py": main,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = [f"{path},{_hash(text)},{len(text)}" for path, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""])
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return whole.getvalue()


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256={base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def index_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pip take packages from a folder and from nowhere else."""
    for name, value in {"FIND_LINKS": str(folder), "NO_INDEX": "1", "CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)


def greetings(folder: Path, version: str = "1.0") -> None:
    """Put the package `greetings` into a folder: it has a program, tests, and a module."""
    programs = "[console_scripts]\ngreetings = greetings.say:main\n"
    more = {
        f"greetings-{version}.dist-info/entry_points.txt": programs,
        "greetings/say.py": f"def main():\n    print('hello from {version}')\n",
        "greetings/tests/test_say.py": "assert False",
    }
    name = f"greetings-{version}-py3-none-any.whl"
    (folder / name).write_bytes(wheel("greetings", "print('run')\n", more, version))
