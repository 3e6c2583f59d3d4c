"""`deploy/environment.py` makes an environment by parts, from wheels in a folder and a package of its own."""

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

BACKEND = """
import sys, zipfile
def build_editable(folder, config_settings=None, metadata_directory=None):
    import planted_build  # the build backend's own package, which is in no part of the environment
    with zipfile.ZipFile(f"{folder}/planted-1-py3-none-any.whl", "w") as wheel:
        for name, text in METADATA.items():
            wheel.writestr(f"planted-1.dist-info/{name}", text)
    return "planted-1-py3-none-any.whl"
METADATA = {
    "METADATA": "Metadata-Version: 2.1\\nName: planted\\nVersion: 1\\n",
    "WHEEL": "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    "RECORD": "",
}
"""
PARTS = {
    "planted-base": "default",
    "planted-sheet": "office",
    "planted-test": "dev",
    "planted-build": "build",
}


def wheel(folder: Path, name: str) -> str:
    """Write a wheel with one module; return its entry in a lock."""
    module = name.replace("-", "_")
    path = folder / f"{module}-1-py3-none-any.whl"
    files = {
        f"{module}.py": "",
        f"{module}-1.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n",
        f"{module}-1.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for file, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{file},sha256={digest},{len(text)}\n"
    with zipfile.ZipFile(path, "w") as out:
        for file, text in (*files.items(), (f"{module}-1.dist-info/RECORD", record)):
            out.writestr(file, text)
    return f"{name}==1 \\\n    --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "wheels").mkdir()
    lock = "".join(f"# {part}\n{wheel(tmp_path / 'wheels', name)}" for name, part in PARTS.items())
    (tmp_path / "requirements.lock").write_text(lock, "utf-8")
    (tmp_path / "backend.py").write_text(BACKEND, "utf-8")
    (tmp_path / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n', "utf-8"
    )
    shutil.copy(ROOT / "deploy/environment.py", tmp_path)
    return tmp_path


def made(project: Path, *parts: str, code: int = 0) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(project / "wheels"), "PIP_NO_CACHE_DIR": "1"}
    command = [sys.executable, "environment.py", ".venv", *parts]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, env=kept | offline)
    assert done.returncode == code, done.stderr
    return done.stderr


def installed(project: Path) -> set[str]:
    found = (project / ".venv").glob("lib/python*/site-packages/planted*.dist-info")
    return {path.name.split("-")[0] for path in found}


@pytest.mark.more
@pytest.mark.long
def test_an_environment_grows_by_parts_and_keeps_them(project: Path) -> None:
    assert "Rumi has no extra 'chess'. There are: all, office." in made(project, "chess", code=1)
    assert "1 packages" in made(project)
    assert installed(project) == {"planted", "planted_base"}
    assert not (project / ".venv/.ready").exists()
    assert made(project) == "", "nothing to do"
    made(project, "office")
    assert installed(project) == {"planted", "planted_base", "planted_sheet"}
    made(project, "everything")
    assert installed(project) == {"planted", *(name.replace("-", "_") for name in PARTS)}
    assert (project / ".venv/.ready").exists()
    assert made(project, "office") == ""


@pytest.mark.long
@pytest.mark.more
def test_a_changed_lock_updates_the_parts_that_are_installed(project: Path) -> None:
    made(project, "office")
    shutil.rmtree(next((project / ".venv").glob("lib/python*/site-packages/planted_sheet-1.dist-info")))
    later = (project / ".venv/.installed").stat().st_mtime + 5
    os.utime(project / "requirements.lock", (later, later))
    made(project)
    assert installed(project) == {"planted", "planted_base", "planted_sheet"}
    assert (project / ".venv/.installed").read_text("utf-8") == "default office\n"


def test_an_environment_without_a_list_has_everything(project: Path) -> None:
    """Earlier versions made only the file `.ready`, and installed everything."""
    (project / ".venv").mkdir()
    (project / ".venv/.ready").touch()
    assert made(project) == ""
    assert (project / ".venv/.installed").read_text("utf-8") == "everything\n"
