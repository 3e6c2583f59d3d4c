"""Skills with scripts, written like those of public collections, from the model's first call to the result.

The model does what the instructions say: each line of their code, with paths in the folder that it was told.
"""

import io
import json
import os
import re
import secrets
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from rumi.platform.home import Home
from rumi.sandbox.identity import sandbox_user
from rumi.sandbox.workspace import prepare_workspace
from tests.cli.program import RUMI, Program
from tests.conftest import ROOT
from tests.fakes.groq_replies import Answer, Behaviour, Body, answered_calls, last_user_text
from tests.fakes.groq_server import KEY, serve_groq

EXAMPLES = ROOT / "tests/agent/skills/examples"
ENGINES = [
    pytest.param("docker", marks=pytest.mark.docker),
    pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
]


def follows(body: Body) -> Behaviour:
    """`use NAME` uses the skill and does what it says; other words are a command."""
    said, results = last_user_text(body), answered_calls(body)
    word, _, name = said.partition(" ")
    if word != "use":
        return Answer(results[-1]) if results else run(said)
    if not results:
        return Answer(calls=[("use_skill", json.dumps({"name": name, "input": "the file in /workspace"}))])
    lines = [
        re.sub(r"(?<![/\w])(scripts|assets)/", rf"{folder}/\1/", line.strip())
        for folder in re.findall(r"in the sandbox is (/skills/[\w-]+)", results[0])
        for block in re.findall(r"```bash\n(.*?)```", results[0], re.DOTALL)
        for line in block.strip().splitlines()
    ]
    done = len(results) - 1
    return run(lines[done]) if done < len(lines) else Answer("\n".join(results[1:]))


def run(command: str) -> Answer:
    return Answer(calls=[("bash", json.dumps({"command": command}))])


@pytest.fixture(params=ENGINES)
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Program]:
    home = Home(tmp_path / "home").make()
    shutil.copytree(EXAMPLES, home.root / "skills", dirs_exist_ok=True)
    image = f"rumi-runner-tests-{secrets.token_hex(4)}:skills"
    env = {"RUMI_SANDBOX__TOOLS": "work", "RUMI_SANDBOX__BACKEND": request.param, "GROQ_API_KEY": KEY}
    yield Program(home.root, env | {"RUMI_SANDBOX__IMAGE": image, "RUMI_MEMORY__EXTRACT": "false"})
    if request.param == "docker":
        subprocess.run(["docker", "rmi", "--force", image], capture_output=True, check=True)


@pytest.mark.long
async def test_skills_of_public_collections_work_unchanged(program: Program) -> None:
    home = Home(program.home)
    user = sandbox_user(home.installation(), home.root)
    workspace = prepare_workspace(home.root, "cli", *user)
    given = {"form.pdf": form(), "sales.xlsx": workbook(), "page.html": PAGE}
    for name, content in given.items():
        (workspace / name).write_bytes(content)
        os.chown(workspace / name, *user)
    lines = [
        *("use pdf-form-filler", "use spreadsheet-reader", "use web-page-tester"),
        "git init -q project && echo '# It' > project/README.md && git -C project add README.md",
        *("use commit-message-writer", "touch /skills/web-page-tester/x", "rm -r /skills/web-page-tester"),
    ]
    async with serve_groq(follows) as server:
        program.env["GROQ_BASE_URL"] = server.base_url
        done = await trio.run_process(
            [RUMI, "chat"],
            env=program.environment(),
            stdin="".join(f"{line}\n" for line in lines).encode(),
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
    said = done.stdout.decode()
    assert done.returncode == 0, done.stderr.decode()
    for words in (
        '{"name": "", "year": ""}',
        '{"name": "Ada Lovelace", "year": "1843"}',
        "total 42",
        "alt\nlang\n",
        "README.md | 1 +",
        "Rumi: docs: describe the project",
    ):
        assert words in said
    assert said.count("Read-only file system") >= 2
    assert b"/V (Ada Lovelace)" in (workspace / "filled.pdf").read_bytes()


PAGE = b"<html><head><title>x</title></head><body><img src=a.png></body></html>"


def form() -> bytes:
    """A form with two text fields."""
    texts = [
        "<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [4 0 R 5 0 R] >> >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Annots [4 0 R 5 0 R] >>",
        *(
            f"<< /Type /Annot /Subtype /Widget /FT /Tx /T ({name}) /V () /Rect [9 9 99 {top}] >>"
            for name, top in (("name", 29), ("year", 59))
        ),
    ]
    return b"%PDF-1.4\n" + b"".join(
        f"{number} 0 obj\n{text}\nendobj\n".encode() for number, text in enumerate(texts, 1)
    )


def workbook() -> bytes:
    """A workbook with a sheet of three rows."""
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    rows = "".join(
        f'<row><c t="s"><v>{number}</v></c><c><v>{value}</v></c></row>'
        for number, value in ((1, 30), (2, 12))
    )
    heads = '<row><c t="s"><v>0</v></c><c t="s"><v>3</v></c></row>'
    words = "".join(f"<si><t>{word}</t></si>" for word in ("who", "ann", "bob", "sum"))
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as book:
        book.writestr("xl/sharedStrings.xml", f"<sst {space}>{words}</sst>")
        book.writestr(
            "xl/worksheets/sheet1.xml", f"<worksheet {space}><sheetData>{heads}{rows}</sheetData></worksheet>"
        )
    return whole.getvalue()
