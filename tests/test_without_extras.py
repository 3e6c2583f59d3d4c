"""Rumi in an environment without any extra."""

import base64
import json
import os
import re
import subprocess
import sys
import tomllib
from functools import partial
from importlib.metadata import packages_distributions
from pathlib import Path

import brotli
import pytest

from rumi.platform.extras import EXTRAS, MissingExtra, install_command, is_installed
from tests.bare import ROOT, make_bare

slow = partial(pytest.param, marks=pytest.mark.long)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LISTED = PROJECT["optional-dependencies"]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bare(tmp_path_factory.mktemp("bare"))


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RUMI_")}
    return kept | {
        "RUMI_HOME": str(tmp_path / "home"),
        "RUMI_SANDBOX__BACKEND": "bubblewrap",
        "LANG": "C.UTF-8",
    }


def run(python: Path, home: dict[str, str], *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [python.with_name("rumi"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=home | more, timeout=60, input="")


def tried(python: Path, home: dict[str, str], code: str) -> str:
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, env=home, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def named(requirement: str) -> str:
    return requirement.partition(">")[0].partition("[")[0].lower()


def test_the_extras_of_the_code_are_those_of_the_package() -> None:
    assert set(LISTED) == {*EXTRAS, "all"}
    assert LISTED["all"] == [f"rumi[{','.join(sorted(EXTRAS))}]"]
    installed = packages_distributions()
    for name, extra in EXTRAS.items():
        packages = {named(one) for one in LISTED[name]}
        owners = {
            re.sub(r"[-_.]", "-", owner.lower())
            for module in extra.modules
            for owner in installed[module.split(".")[0]]
        }
        assert packages <= owners, f"each package of the extra {name} has a module in EXTRAS"
        assert not packages & {named(one) for one in PROJECT["dependencies"]}


def test_no_extra_is_there_unless_it_is_installed(python: Path, home: dict[str, str]) -> None:
    code = "from rumi.platform.extras import EXTRAS, is_installed; print(*filter(is_installed, EXTRAS))"
    assert tried(python, home, code) == "\n"
    assert all(map(is_installed, EXTRAS)), "the development environment has all"


@pytest.mark.long
@pytest.mark.bubblewrap
def test_chat_and_doctor_need_no_extra(python: Path, home: dict[str, str]) -> None:
    said = run(python, home, "chat", "what", "time", "is", "it")
    assert "It is" in said.stdout, said.stderr
    checked = json.loads(run(python, home, "doctor", "--json").stdout)
    (line,) = [check for check in checked if check["name"] == "extras"]
    assert line["verdict"] == "ok"
    assert f"not installed: {', '.join(EXTRAS)}" in line["found"]


@pytest.mark.long
def test_doctor_names_the_settings_that_need_an_extra(python: Path, home: dict[str, str]) -> None:
    folder = Path(home["RUMI_HOME"])
    folder.mkdir(mode=0o700)
    (folder / "config.toml").write_text(
        '[mcp.notes]\ncommand = "notes"\n[calendars.home]\nurl = "https://example.com/a.ics"\n'
        '[telegram]\nlisten = "127.0.0.1:8090"\n',
        "utf-8",
    )
    checked = json.loads(run(python, home, "doctor", "--json", RUMI_STORE__URL="postgresql://a@b/c").stdout)
    found = [check for check in checked if check["name"] == "extras" and check["verdict"] == "failure"]
    wanted = {
        "store.url": "cluster",
        "mcp.notes": "mcp",
        "calendars.home": "calendar",
        "telegram.listen": "page",
    }
    assert [check["found"].split(" is set")[0] for check in found] == list(wanted)
    for check, name in zip(found, wanted.values(), strict=True):
        assert f"the extra `{name}`, which is not installed" in check["found"]
        assert f"rumi[{name}]" in check["fix"] or f"EXTRAS={name}" in check["fix"]


@pytest.mark.parametrize(
    ("arguments", "settings", "name"),
    [
        slow(("serve", "--web", "127.0.0.1:0"), {}, "page"),
        (("web", "127.0.0.1:0"), {}, "page"),
        slow(("serve",), {"RUMI_TELEGRAM__LISTEN": "127.0.0.1:0"}, "page"),
        (("mcp", "serve"), {}, "mcp"),
        slow(("chat", "hello"), {"RUMI_STORE__URL": "postgresql://a@127.0.0.1/b"}, "cluster"),
        (("data", "show"), {"RUMI_STORE__URL": "postgresql://a@127.0.0.1/b"}, "cluster"),
    ],
)
def test_a_command_names_the_extra_that_it_lacks(
    arguments: tuple[str, ...], settings: dict[str, str], name: str, python: Path, home: dict[str, str]
) -> None:
    done = run(python, home, *arguments, **settings)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "extra" in line]
    assert f"the extra `{name}`, which is not installed. Install it: " in line


READING = """
import sys, trio, base64
from rumi.errors import RumiError
from rumi.web.readers.files.reading import Looks, ViewLimits
async def main():
    for kind in ("picture", "document"):
        try:
            print((await Looks(ViewLimits()).look(kind, base64.b64decode(sys.stdin.readline()), "a"))["text"])
        except RumiError as error:
            print(error, type(error.message.fields["failed"]).__name__)
    try:
        await Looks(ViewLimits()).page(b"%PDF-1.4", 1)
    except RumiError as error:
        print(error)
trio.run(main)
"""


def test_pictures_and_old_office_files_say_what_they_need(python: Path, home: dict[str, str]) -> None:
    from io import BytesIO

    import xlwt
    from PIL import Image

    picture, sheet = BytesIO(), BytesIO()
    Image.new("RGB", (4, 4)).save(picture, "PNG")
    book = xlwt.Workbook()
    book.add_sheet("a").write(0, 0, "b")
    book.save(sheet)
    bodies = "\n".join(base64.b64encode(one.getvalue()).decode() for one in (picture, sheet))
    done = subprocess.run([python, "-c", READING], input=bodies, capture_output=True, text=True, env=home)
    first, second, third = done.stdout.splitlines()
    assert first.startswith("it needs the extra `pictures`, which is not installed: ")
    assert second.startswith("it needs the extra `office`, which is not installed: ")
    assert second.endswith(" Text"), "it can be translated"
    assert third.startswith("it needs the extra `pictures`, which is not installed: ")


def test_pages_pdfs_and_new_office_files_are_read_without_an_extra(
    python: Path, home: dict[str, str]
) -> None:
    from tests.web.pdfs import pdf
    from tests.web.readers.documents.builders import xlsx

    code = """
import sys, base64
from rumi.web.readers.pages.documents.document import read_document
from rumi.web.readers.pages.page import read_page
for line in sys.stdin:
    print(read_document(base64.b64decode(line), "", 1000))
page = b"<h1>a</h1><p>caf\\xe9</p>"
print(read_page(page, media_type="text/html", charset="", url="http://a/", max_chars=99).text)
"""
    sheet = xlsx({"a": "<row><c t='inlineStr'><is><t>tea</t></is></c></row>"})
    bodies = "\n".join(base64.b64encode(one).decode() for one in (pdf([b"(A line of text) Tj"]), sheet))
    done = subprocess.run([python, "-c", code], input=bodies, capture_output=True, text=True, env=home)
    assert done.returncode == 0, done.stderr
    assert "A line of text" in done.stdout
    assert "tea" in done.stdout
    assert "café" in done.stdout


def test_other_parts_say_what_they_need(python: Path, home: dict[str, str]) -> None:
    code = """
import trio
from pathlib import Path
from rumi.errors import RumiError
from rumi.services.calendar.reader import CalendarReader
from rumi.web.fetch.decoding import decoder_for
async def failing(work):
    try:
        await work()
    except RumiError as error:
        print(error)
async def unpack():
    decoder_for(["br"]).decode(bytes.fromhex(PACKED), 100)
async def unlabelled():
    decoder_for([], text=True).decode(b"\\x28\\xb5\\x2f\\xfd" + bytes(100), 100)
async def main():
    await failing(lambda: CalendarReader().effect_in(b""))
    await failing(unpack)
    await failing(unlabelled)
trio.run(main)
"""
    packed = brotli.compress(bytes(range(256)) * 2).hex()
    calendar, br, zstd = tried(python, home, f"PACKED = {packed!r}\n{code}").splitlines()
    assert calendar.startswith("Calendars need the extra `calendar`, which is not installed. Install it: ")
    for line, name in ((br, "br"), (zstd, "zstd")):
        assert (
            f"unrequested compression, {name}: it needs the extra `encodings`, which is not installed" in line
        )


@pytest.mark.long
def test_a_server_of_tools_says_what_it_needs(python: Path, home: dict[str, str]) -> None:
    folder = Path(home["RUMI_HOME"])
    folder.mkdir(mode=0o700)
    (folder / "config.toml").write_text('[mcp.notes]\ncommand = "true"\n', "utf-8")
    done = run(python, home, "mcp", "test", "notes")
    assert done.returncode == 1
    assert "the extra `mcp`, which is not installed. Install it: " in done.stderr


def test_the_command_fits_the_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_command.cache_clear()
    monkeypatch.setattr("sys.prefix", str(ROOT / ".venv"))
    assert install_command("office") == f"make -C {ROOT} extra NAME=office"
    install_command.cache_clear()
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "bin/python"))
    assert install_command("office").endswith("-m pip install 'rumi[office]'")
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\nuv = 0.9.2\nversion_info = 3.12.3\n")
    install_command.cache_clear()
    assert install_command("office") == f"uv pip install --python {tmp_path}/bin/python 'rumi[office]'"
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12.3\n")
    (tmp_path / "pipx_metadata.json").touch()
    install_command.cache_clear()
    assert install_command("office") == "pipx runpip rumi install 'rumi[office]'"
    install_command.cache_clear()


def test_the_sentence_is_translated() -> None:
    said = MissingExtra("pictures").text.in_language("es")
    assert said.startswith("Imágenes: hace falta el extra `pictures`, que no está instalado.")


@pytest.mark.parametrize(
    ("system", "language", "sentence"),
    [
        ("darwin", "C", "Rumi runs on Linux only, and this is macOS. Run it in Docker"),
        ("win32", "C", "Rumi runs on Linux only, and this is Windows. Run it in WSL"),
        ("win32", "es_ES.UTF-8", "Rumi solo funciona en Linux, y esto es Windows. Ejecútalo en WSL"),
    ],
)
def test_another_system_gets_one_sentence(system: str, language: str, sentence: str) -> None:
    absent = ["fcntl", "pwd", "grp", "resource", "termios"]
    code = f"import sys; sys.platform = {system!r}; sys.modules |= dict.fromkeys({absent}); "
    environment = {"PATH": os.environ["PATH"], "LC_ALL": language, "PYTHONUTF8": "1"}
    for start in (
        "import runpy; runpy.run_module('rumi', run_name='__main__')",
        "from rumi.cli import main; main()",
    ):
        done = subprocess.run(
            [sys.executable, "-c", code + start], capture_output=True, text=True, env=environment
        )
        assert done.returncode == 1
        assert done.stderr.startswith(f"✗ {sentence}"), done.stderr
        assert done.stderr.count("\n") == 1


def test_make_on_another_system_says_the_same(tmp_path: Path) -> None:
    code = (
        "import sys, runpy; sys.platform = 'darwin'; sys.modules['fcntl'] = None; sys.argv = sys.argv[1:]; "
    )
    code += "runpy.run_path(sys.argv[0], run_name='__main__')"
    command = [sys.executable, "-c", code, str(ROOT / "deploy/environment.py"), str(tmp_path / "venv")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "Rumi runs on Linux only, and this is macOS" in done.stderr
