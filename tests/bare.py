"""An environment without any extra, made of the installed packages that the default needs."""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from sysconfig import get_path

ROOT = Path(__file__).resolve().parent.parent


def locked(root: Path = ROOT) -> Iterator[tuple[set[str], str, str, str]]:
    """Yield what needs each entry of the lock, with the entry's name, version and condition."""
    text = (root / "requirements.lock").read_text("utf-8")
    entry = r"^# (.*)\n((?:[^#\n].*\n)+)"
    for needed_by, lines in re.findall(entry, text, re.MULTILINE):
        for line in lines.splitlines():
            if found := re.match(r"(\S+)==(\S+)(?: ; ([^\\]*))?", line):
                yield set(needed_by.split(", ")), found[1], found[2], (found[3] or "").strip()


def make_bare(folder: Path) -> Path:
    """Make the environment; return its Python. It has links to the packages, and no pip."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    target = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    source = Path(get_path("purelib"))
    for needed_by, name, _, _ in locked():
        if "default" not in needed_by:
            continue
        for file in distribution(name).files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (target / top).exists():
                (target / top).symlink_to(source / top)
    (target / "rumi.pth").write_text(f"{ROOT}\n", "utf-8")
    program = folder / "bin" / "rumi"
    program.write_text(f"#!{python}\nfrom rumi.cli import main\nmain()\n", "utf-8")
    program.chmod(0o755)
    return python
