"""Makes a release's files in dist/: `make release`.

They depend only on the commit: two runs give the same bytes, in any folder, at any time, under any umask.

- `rumi-X.tar.gz` and `rumi-X-py3-none-any.whl`, both built from the files of the commit, the wheel from the
  source package;
- `rumi-X.cdx.json`: the packages that the wheel needs, as CycloneDX (deploy/sbom.py);
- `SHA256SUMS`.
"""

import ast
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECTION = re.compile(r"^## (\S+)(?: \((\d{4}-\d{2}-\d{2})\))?$", re.MULTILINE)


class NotReady(Exception):
    """A reason why the working tree is not a release."""


def git(root: Path, *words: str) -> str:
    """Return what git prints.

    Raises:
        NotReady: git is missing, or refuses, for example because the folder is no clone.
    """
    return _git(root, *words).decode("utf-8", "replace").strip()


def _git(root: Path, *words: str) -> bytes:
    try:
        return subprocess.run(["git", *words], cwd=root, check=True, capture_output=True).stdout
    except FileNotFoundError:
        raise NotReady("git is missing. A release is made from a clone, with git.") from None
    except subprocess.CalledProcessError as error:
        raise NotReady(f"git failed: {error.stderr.decode('utf-8', 'replace').strip()}") from None


def version_of(root: Path) -> str:
    """Return `__version__` without importing the program."""
    tree = ast.parse((root / "rumi/__init__.py").read_text("utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__version__":
            return str(ast.literal_eval(node.value))
    raise NotReady("rumi/__init__.py has no __version__")


def check(root: Path) -> str:
    """Return the version that the tree of `root` releases.

    Raises:
        NotReady: the tree has changes, or CHANGELOG.md does not begin with a dated section of this version,
            or another commit already has the version's tag.
    """
    if changed := git(root, "status", "--porcelain"):
        raise NotReady(f"The tree has changes that are not committed:\n{changed}")
    version = version_of(root)
    sections = SECTION.findall((root / "CHANGELOG.md").read_text("utf-8"))
    if not sections or sections[0][0] != version:
        top = sections[0][0] if sections else "nothing"
        raise NotReady(f"CHANGELOG.md begins with {top}, and rumi/__init__.py has {version}.")
    if not sections[0][1]:
        raise NotReady(f"The section of {version} in CHANGELOG.md has no date: ## {version} (YYYY-MM-DD)")
    tagged = git(root, "tag", "--list", f"v{version}")
    if tagged and git(root, "rev-list", "-n1", f"v{version}") != git(root, "rev-parse", "HEAD"):
        raise NotReady(f"v{version} is another commit already. Raise __version__ in rumi/__init__.py.")
    return version


def build(root: Path, dist: Path) -> list[Path]:
    """Write the release of the commit that `root` has checked out, and return its files, sorted."""
    environment = {
        "PATH": os.defpath,
        "LC_ALL": "C.UTF-8",
        "SOURCE_DATE_EPOCH": git(root, "show", "--no-patch", "--format=%ct", "HEAD"),
        "RUMI_COMMIT": git(root, "rev-parse", "HEAD"),
    }
    dist.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rumi-release-") as folder:
        # Only what is committed: git leaves out ignored files, which a folder may have. The settings are
        # git's own, whatever this machine has.
        archive = _git(root, "-c", "core.autocrlf=false", "-c", "tar.umask=0002", "archive", "HEAD")
        tree = Path(folder, "tree")
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(tree, filter="data")
        built = Path(folder, "dist")
        sdist = _hatchling(tree, built, "sdist", environment)
        with tarfile.open(sdist) as files:
            files.extractall(Path(folder, "source"), filter="data")
        (source,) = Path(folder, "source").iterdir()
        wheel = _hatchling(source, built, "wheel", environment)
        bom = built / f"{sdist.name.removesuffix('.tar.gz')}.cdx.json"
        sbom = [sys.executable, str(ROOT / "deploy/sbom.py"), str(wheel), str(tree / "requirements.lock")]
        bom.write_bytes(subprocess.run(sbom, check=True, capture_output=True).stdout)
        files_of_release = sorted([sdist, wheel, bom])
        sums = built / "SHA256SUMS"
        sums.write_text("".join(f"{digest(path)}  {path.name}\n" for path in files_of_release), "utf-8")
        return [Path(shutil.copyfile(path, dist / path.name)) for path in [*files_of_release, sums]]


def digest(path: Path) -> str:
    """Return the file's SHA-256 in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _hatchling(source: Path, target: Path, kind: str, environment: dict[str, str]) -> Path:
    before = set(target.glob("*"))
    words = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)]
    done = subprocess.run(words, cwd=source, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise NotReady(f"hatchling failed:\n{done.stdout}{done.stderr}")
    (made,) = set(target.glob("*")) - before
    return made


def main() -> int:
    """Check the tree, build into dist/, and print the sums; return the exit code."""
    try:
        version = check(ROOT)
        made = build(ROOT, ROOT / "dist")
    except NotReady as error:
        print(f"✗ {error}", file=sys.stderr)  # noqa: T201
        return 1
    print(f"Rumi {version}, commit {git(ROOT, 'rev-parse', 'HEAD')}, in dist/:")  # noqa: T201
    print(made[-1].read_text("utf-8"), end="")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
