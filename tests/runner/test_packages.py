"""Python packages of the sandbox: what is installed, what stays out, and what is said of it."""

import hashlib
import re
import shutil
from pathlib import Path

import pytest

from runner.fonts import DEJAVU, font_entries
from runner.packages import install, packages_in
from runner.programs import LOCK, OFFICE, WORK, Selection, package_name
from runner.rootfs import build_rootfs, ensure_rootfs
from tests.fakes.wheels import greetings, index_of, wheel

SELECTION = Selection("work", (), ("greetings",))


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    greetings(folder)
    index_of(folder, monkeypatch)
    return folder


def quietly(line: str) -> None:
    """Ignore the progress."""


def test_packages_are_installed_without_their_tests(index: Path, tmp_path: Path) -> None:
    folder = tmp_path / "packages"
    found = install(folder, ("Greetings>=0.5",), quietly)
    assert (found.installed, found.missing, found.reason) == (("greetings==1.0",), (), "")
    assert found == packages_in(folder)
    assert found.bytes > 0
    assert {path.name for path in (folder / "site/greetings").iterdir()} == {
        *("__init__.py", "__main__.py", "say.py", "__pycache__")
    }
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_package_without_a_wheel_is_left_out_and_named(index: Path, tmp_path: Path) -> None:
    found = install(tmp_path / "packages", ("there-is-none", "greetings", "Nor.This==2"), quietly)
    assert found.installed == ("greetings==1.0",)
    assert found.missing == ("there-is-none", "Nor.This==2")
    assert "no index has a wheel" in found.reason
    selection = Selection("work", (), ("there-is-none", "greetings", "Nor.This==2"))
    assert selection.lacking(found.installed) == ("there-is-none", "nor-this")


def test_without_an_index_the_packages_stay_and_one_line_says_why(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "packages"
    before = install(folder, ("greetings",), quietly)
    for name, value in {"NO_INDEX": "0", "FIND_LINKS": "", "INDEX_URL": "http://127.0.0.1:9/simple"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    after = install(folder, ("greetings", "another"), quietly)
    assert (after.installed, after.missing) == (before.installed, ("another",))
    assert after.reason == "no package index can be reached"
    assert packages_in(folder) == before


def test_an_empty_list_removes_the_packages(index: Path, tmp_path: Path) -> None:
    folder = tmp_path / "packages"
    install(folder, ("greetings",), quietly)
    assert install(folder, (), quietly).installed == ()
    assert not folder.exists()


def test_a_damaged_manifest_counts_as_none(tmp_path: Path) -> None:
    for text in ("", "[]", "{}", '{"wanted": 3}', '{"more": []}'):
        (tmp_path / "manifest.json").write_text(text)
        assert packages_in(tmp_path).installed == ()


def test_pip_gets_nothing_of_rumis_environment_but_its_own(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "gsk_secret")
    monkeypatch.setattr(
        "runner.packages.RUN_PIP", "import os; print(*sorted(os.environ)); raise SystemExit(1)"
    )
    seen = install(tmp_path / "packages", ("greetings",), quietly).reason
    assert "PIP_FIND_LINKS" in seen
    assert "GROQ_API_KEY" not in seen


@pytest.mark.long
def test_a_tree_is_rebuilt_when_its_packages_change(index: Path, tmp_path: Path) -> None:
    folder, target, seen = tmp_path / "packages", tmp_path / "root", list[str]()

    def ensured(selection: Selection = SELECTION) -> tuple[str, ...]:
        seen.clear()
        return ensure_rootfs(target, selection=selection, packages=folder, progress=seen.append).packages

    assert ensured() == ()
    install(folder, ("greetings",), quietly)
    assert ensured() == ("greetings==1.0",)
    assert seen
    assert ensured() == ("greetings==1.0",)
    assert not seen
    (target.parent / "index/greetings-1.0-py3-none-any.whl").unlink()
    greetings(index, "2.0")
    install(folder, ("greetings",), quietly)
    assert ensured() == ("greetings==2.0",)
    shutil.rmtree(folder)
    assert ensured() == ()


@pytest.mark.long
def test_packages_of_another_python_stay_out(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "packages"
    install(folder, ("greetings",), quietly)
    manifest = folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"cpython-3', '"cpython-2'))
    report = build_rootfs(tmp_path / "root", selection=SELECTION, packages=folder)
    assert report.packages == ()
    assert not list((tmp_path / "root").rglob("greetings"))


# The packages of `tools = "office"`.


@pytest.fixture
def lock(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lock file for the index: one of the office's packages, and one that it needs."""
    for name, version in (("matplotlib", "3.1"), ("helper", "0.5"), ("helper", "0.6")):
        fonts = {"matplotlib/mpl-data/fonts/ttf/DejaVuSans.ttf": "font"} if name == "matplotlib" else {}
        (index / f"{name}-{version}-py3-none-any.whl").write_bytes(wheel(name, "", fonts, version))
    file = tmp_path / "office.lock"
    file.write_text("".join(_pinned(index, pin) for pin in ("matplotlib==3.1", "helper==0.5")))
    monkeypatch.setattr("runner.packages.LOCK", file)
    return file


def _pinned(index: Path, pin: str) -> str:
    content = (index / f"{pin.replace('==', '-')}-py3-none-any.whl").read_bytes()
    return f"{pin} \\\n    --hash=sha256:{hashlib.sha256(content).hexdigest()}\n"


def test_locked_packages_have_their_versions_and_the_others_fit(lock: Path, tmp_path: Path) -> None:
    folder = tmp_path / "packages"
    found = install(folder, ("greetings", "helper"), quietly, ("matplotlib",))
    assert found.installed == ("greetings==1.0", "helper==0.5", "matplotlib==3.1")
    assert (found.missing, found.reason) == ((), "")
    assert (folder / "site/bin/greetings").exists()
    assert {path.name for path in (folder / "site").glob("*.dist-info")} == {
        *("greetings-1.0.dist-info", "helper-0.5.dist-info", "matplotlib-3.1.dist-info")
    }


@pytest.mark.long
def test_a_locked_package_with_other_bytes_is_not_installed_and_the_others_are(
    lock: Path, index: Path, tmp_path: Path
) -> None:
    (index / "helper-0.5-py3-none-any.whl").write_bytes(wheel("helper", "evil()", {}, "0.5"))
    found = install(tmp_path / "packages", ("greetings",), quietly, ("matplotlib",))
    assert (found.installed, found.missing) == (("greetings==1.0",), ("matplotlib",))
    assert "HASHES" in found.reason
    assert not (tmp_path / "packages/site/matplotlib").exists()


@pytest.mark.long
def test_a_version_that_does_not_fit_is_left_out_and_the_locked_ones_stay(lock: Path, tmp_path: Path) -> None:
    found = install(tmp_path / "packages", ("helper==0.6",), quietly, ("matplotlib",))
    assert (found.installed, found.missing) == (("matplotlib==3.1",), ("helper==0.6",))
    assert found.reason


def test_without_an_index_no_locked_package_comes_and_one_line_says_why(
    lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"NO_INDEX": "0", "FIND_LINKS": "", "INDEX_URL": "http://127.0.0.1:9/simple"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    found = install(tmp_path / "packages", (), quietly, ("matplotlib",))
    assert (found.installed, found.missing) == ((), ("matplotlib",))
    assert found.reason == "no package index can be reached"


def test_every_office_package_is_locked_with_hashes() -> None:
    pins = {package_name(line.split()[0]) for line in LOCK.read_text().splitlines() if "==" in line}
    assert pins >= set(OFFICE)
    blocks = re.split(r"\n(?=\S)", LOCK.read_text().strip())
    assert all("--hash=sha256:" in block for block in blocks)


def test_the_fonts_are_those_of_matplotlib_and_wanted_ones_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, site = tmp_path / "fonts", tmp_path / "site"
    names = (
        "a/NotoSansCJK-Regular.ttc",
        "NotoSansCJK-Light.ttc",
        "b/NotoSans-Bold.ttf",
        "Comic.ttf",
        "a.ttf/x",
    )
    for path in (
        *(host / name for name in names),
        site / DEJAVU / "DejaVuSans.ttf",
        site / DEJAVU / "cm.ttf",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("font")
    monkeypatch.setattr("runner.fonts.HOST_FONTS", (host, tmp_path / "none"))
    *fonts, settings = font_entries(site)
    assert [str(entry.inside) for entry in fonts] == [
        f"usr/share/fonts/office/{name}"
        for name in ("DejaVuSans.ttf", "NotoSans-Bold.ttf", "NotoSansCJK-Regular.ttc")
    ]
    assert str(settings.inside) == "etc/matplotlibrc"
    assert settings.content == b"font.family: DejaVu Sans, Noto Sans CJK JP\n"
    assert list(font_entries(tmp_path / "another site")) == []


def test_the_office_selection_names_its_packages_once_and_its_lock_is_part_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    office = Selection("office", (), ("numpy", "Matplotlib>=3", "openpyxl"))
    assert office.packages == ("numpy",)
    assert office.package_names == ("numpy", *OFFICE)
    assert set(office.allowed) >= set(WORK)
    before = office.label
    monkeypatch.setattr("runner.programs.lock_digest", lambda: "another")
    assert office.label != before
    assert Selection("work", (), ("numpy", "matplotlib")).label == "work + matplotlib numpy"


def test_a_selection_without_python_wants_no_packages() -> None:
    assert Selection("core", (), ("numpy",)).packages == ()
    assert Selection("core", (), ("numpy",)).label == "core"
    assert Selection("core", ("python3",), ("numpy",)).packages == ("numpy",)
    assert Selection("work", (), ("pandas", "numpy>=2")).label == "work + numpy>=2 pandas"


@pytest.mark.parametrize(
    ("requirement", "name"),
    [("numpy", "numpy"), ("Foo.Bar_x[a,b]>=2,<3", "foo-bar-x"), ("a~=1", "a"), ("a!=1", "a")],
)
def test_a_requirement_has_a_normalized_name(requirement: str, name: str) -> None:
    assert package_name(requirement) == name
