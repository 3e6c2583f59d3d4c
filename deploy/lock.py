"""Makes `requirements.lock` for `make lock`, or checks it for `make lock-check`. Both need uv and an index.

The lock has exact versions with hashes for Linux and every Python that `pyproject.toml` allows. The comment
above an entry names what needs it: `default`, extras, `build` (Rumi's own package) or `dev` (all that is
left). `deploy/environment.py` installs by it.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = ("x86_64-manylinux_2_28", "aarch64-manylinux_2_28")
FROM_SOURCE = ("dkimpy", "odfpy")
"""Packages that have no wheels; they are plain Python."""

_HOLD = (
    "implementation_name == 'cpython'",
    "platform_python_implementation != 'PyPy'",
    "sys_platform == 'linux'",
)
OF_ALL = re.compile(rf"(?: and )?(?:{'|'.join(_HOLD)})")
"""Conditions that hold for every entry, by `environments` in `pyproject.toml`."""


def main(arguments: list[str]) -> int:
    """Make the lock, or check it; return the exit code."""
    if shutil.which("uv") is None:
        sys.stderr.write("✗ uv is missing. Install it: python3 -m pip install uv\n")
        return 1
    return check() if arguments == ["check"] else make()


def make() -> int:
    """Resolve everything in one run, then ask for each part which of these packages it needs.

    Versions of the present lock stay if they still fit; delete the file first to get the newest ones.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = [name for name in sorted(project["project"]["optional-dependencies"]) if name != "all"]
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder, "before.lock")
        if LOCK.exists():
            shutil.copy(LOCK, before)
        _compile("--all-extras", "--group", "dev", "--generate-hashes", "-o", str(before))
        entries = _entries(before.read_text("utf-8"))
        versions = Path(folder, "versions.txt")
        versions.write_text("\n".join(entry.split(" \\")[0] for entry in entries.values()), "utf-8")
        parts = {"default": _names("-c", str(versions))}
        parts |= {extra: _names("--extra", extra, "-c", str(versions)) for extra in extras}
        backend = Path(folder, "build.txt")
        backend.write_text("\n".join(project["build-system"]["requires"]), "utf-8")
        parts["build"] = set(_entries(_compile("-c", str(versions), source=str(backend))))
    lines = []
    for name, entry in entries.items():
        needed_by = [part for part, names in parts.items() if name in names] or ["dev"]
        lines += [f"# {'default' if 'default' in needed_by else ', '.join(needed_by)}", entry]
    LOCK.write_text("\n".join(lines) + "\n", "utf-8")
    return 0


def check() -> int:
    """Find a file with a locked hash for each package, Python and platform; return the exit code."""
    bad = 0
    for python in PYTHONS:
        for platform in PLATFORMS:
            with tempfile.TemporaryDirectory() as folder:
                command = ["uv", "pip", "install", "--quiet", "--dry-run", "--target", folder, "--no-deps"]
                command += ["--require-hashes", "--only-binary", ":all:", "-r", str(LOCK)]
                command += ["--python-version", python, "--python-platform", platform]
                for name in FROM_SOURCE:
                    command += ["--no-binary", name]
                done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
            sys.stdout.write(f"{'✗' if done.returncode else '✓'} Python {python}, {platform}\n{done.stderr}")
            bad += done.returncode != 0
    return min(bad, 1)


def _compile(*options: str, source: str = "pyproject.toml") -> str:
    command = ["uv", "pip", "compile", source, "--universal", "--python-version", PYTHONS[0]]
    command += ["--no-emit-index-url", "--no-emit-find-links", "--strip-extras", "--no-annotate"]
    command += ["--no-header", "--quiet", *options]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def _entries(compiled: str) -> dict[str, str]:
    """Return the entries of a compiled file by the packages' names, in its order."""
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", compiled.strip()):
        name = entry.split("==")[0]
        requirement, _, hashes = entry.partition(" \\\n")
        version, _, condition = requirement.partition(" ; ")
        condition = OF_ALL.sub("", condition).removeprefix(" and ")
        entry = version + (f" ; {condition}" if condition else "") + (f" \\\n{hashes}" if hashes else "")
        found[name] = f"{found[name]}\n{entry}" if name in found else entry  # two versions for two Pythons
    return found


def _names(*options: str) -> set[str]:
    return set(_entries(_compile(*options)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
