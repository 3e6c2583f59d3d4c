"""Code skills: each ends in its text or in one clear sentence, and leaves no process."""

import os
import py_compile
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio

from rumi.agent.skills.catalogue import Catalogue
from rumi.agent.skills.folder import snapshot
from rumi.agent.skills.messages import CallReply, Skill, SkillEntry, SkillError, SkillSource
from rumi.agent.skills.running import CodeRunner, SkillRun
from rumi.agent.skills.trust import TrustedSkills
from rumi.errors import RumiError
from tests.agent.skills.making import Threads, write_skill


@dataclass
class Chat:
    """The tools and the model of a chat, by hand."""

    called: list[tuple[str, Mapping[str, object]]] = field(default_factory=list)
    model_fails: bool = False

    async def call(self, name: str, arguments: Mapping[str, object]) -> CallReply:
        await trio.lowlevel.checkpoint()
        self.called.append((name, arguments))
        if name != "echo":
            return CallReply(False, f"there is no tool {name!r}")
        return CallReply(True, f"exit code 0 (1 ms)\noutput:\n{arguments['text']}", 0)

    async def model(self, prompt: str) -> str:
        await trio.lowlevel.checkpoint()
        if self.model_fails:
            raise RumiError("The model is not there.")
        return prompt.upper()


def made(tmp_path: Path, body: str, *, name: str = "do-it", head: str = "") -> Skill:
    """A code skill whose `run` has this body."""
    run = textwrap.indent(textwrap.dedent(body).strip(), " " * 8)
    code = f"{head}\nclass DoItSkill:\n    async def run(self, context):\n{run}\n"
    write_skill(tmp_path / "skills", name, code=code)
    return find(tmp_path / "skills", name)


def find(root: Path, name: str, kind: str = "home") -> Skill:
    source = SkillSource("project", root) if kind == "project" else SkillSource("home", root)
    entry = Catalogue([source]).look().find(name)
    assert isinstance(entry, SkillEntry)
    return entry.skill


async def run(
    tmp_path: Path, skill: Skill, chat: Chat | None = None, *, skill_input: str = "", own_s: float = 20.0
) -> str:
    chat = chat or Chat()
    runner = CodeRunner(TrustedSkills(tmp_path / "skills-trusted.json"), Threads(), own_s=own_s)
    job = SkillRun(skill, skill_input, "cli", tmp_path, "en")
    return (await runner.run(job, chat.call, chat.model)).text


async def fails(tmp_path: Path, skill: Skill, *, own_s: float = 20.0, chat: Chat | None = None) -> str:
    with pytest.raises(SkillError) as caught:
        await run(tmp_path, skill, chat, own_s=own_s)
    said = str(caught.value)
    assert "\n" not in said
    assert skill.name in said
    return said


def alive(marker: str) -> list[int]:
    """Processes whose command line has the marker."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if marker.encode() in words and int(pid) != os.getpid():
            found.append(int(pid))
    return found


async def test_it_is_given_its_input_the_tools_and_the_model(tmp_path: Path) -> None:
    skill = made(
        tmp_path,
        """
        heard = await context.tool("echo", text="one\\ntwo")
        said = await context.model("loud")
        await context.log("a line")
        where = (context.chat, context.language, str(context.workspace))
        return f"{context.input}|{heard.output!r}|{heard.exit_code}|{said}|{where}"
        """,
    )
    chat = Chat()
    text = await run(tmp_path, skill, chat, skill_input="ñ input")
    assert text == f"ñ input|'one\\ntwo'|0|LOUD|('cli', 'en', '{tmp_path}')"
    assert chat.called == [("echo", {"text": "one\ntwo"})]


async def test_what_it_asks_for_at_once_is_answered_one_by_one(tmp_path: Path) -> None:
    skill = made(
        tmp_path,
        """
        found = {}
        async def ask(n):
            found[n] = (await context.tool("echo", text=str(n))).output
        async with trio.open_nursery() as nursery:
            for n in range(20):
                nursery.start_soon(ask, n)
        with trio.move_on_after(0):
            await context.tool("echo", text="given up")
        assert (await context.tool("echo", text="next")).output == "next"
        return str(all(found[n] == str(n) for n in range(20)))
        """,
        head="import trio",
    )
    assert await run(tmp_path, skill) == "True"


async def test_code_of_an_earlier_version_finds_the_context_by_its_earlier_name(tmp_path: Path) -> None:
    skill = made(
        tmp_path,
        "return f'{isinstance(context, Context)} {CannotDo.__name__}'",
        head="from rumi.skills.context import CannotDo, Context",
    )
    assert await run(tmp_path, skill) == "True CannotDo"


async def test_files_beside_it_can_be_imported_and_prints_do_no_harm(tmp_path: Path) -> None:
    skill = made(
        tmp_path,
        """
        print("x" * 1_000_000, flush=True)
        os.write(1, b"y" * 1_000_000)
        os.write(2, b"z" * 1_000_000)
        assert sys.stdin.read() == ""
        return helper.WORD
        """,
        head="import os, sys, helper",
    )
    (skill.folder / "helper.py").write_text("WORD = 'helped'")
    assert await run(tmp_path, skill) == "helped"
    assert not (skill.folder / "__pycache__").exists()


async def test_its_environment_has_nothing_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "gsk_secret")
    skill = made(tmp_path, "return ' '.join(sorted(os.environ))", head="import os")
    assert (await run(tmp_path, skill)).split() == ["LANG", "LC_ALL", "PATH"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ValueError('no\\nfile')", "ValueError: no file (skill.py, line 4)"),
        ("import nothing_of_this_name", "No module named 'nothing_of_this_name'"),
        ("await context.tool('missing')", "there is no tool 'missing'"),
        ("from rumi.agent.skills.context import CannotDo; raise CannotDo('Too late.')", "failed: Too late."),
        ("return 3", "returned int, and must return a text"),
        ("import os; os._exit(7)", "exit code 7"),
        ("import os; os.kill(os.getpid(), 11)", "SIGSEGV"),
        ("raise SystemExit(3)", "SystemExit"),
        ("raise ExceptionGroup('g', [KeyError('k')])", "KeyError: 'k'"),
        ("return 'x' * 5_000_000", "at once"),
        ("import os; [os.write(n, b'\\0\\0\\0\\2no') for n in range(5, 12)]", "not its own"),
        ("x = bytearray(8_000_000_000)", "MemoryError"),
        ("await context.tool('echo', text=object())", "TypeError"),
    ],
)
async def test_what_goes_wrong_in_it_is_one_sentence(tmp_path: Path, body: str, said: str) -> None:
    if "range(5" in body:
        body = (
            "import os\n"
            "for n in range(3, 20):\n"
            "    try: os.write(n, b'\\0\\0\\0\\2no')\n"
            "    except OSError: pass\n"
            "return ''"
        )
    assert said in await fails(tmp_path, made(tmp_path, body))


async def test_the_model_that_does_not_answer_is_told_to_the_skill(tmp_path: Path) -> None:
    skill = made(
        tmp_path,
        """
        try:
            await context.model("x")
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        """,
    )
    assert await run(tmp_path, skill, Chat(model_fails=True)) == "ToolFailed: The model is not there."


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("class Other:\n    pass\n", "has no class DoItSkill"),
        ("DoItSkill = 3\n", "has no class DoItSkill"),
        ("class DoItSkill:\n    def run(self, context): return ''\n", "has no `async def run"),
        ("class DoItSkill:\n    def broken(", "SyntaxError"),
        ("raise RuntimeError('at import')\n", "RuntimeError: at import"),
        ("import nothing_here\n", "nothing_here"),
    ],
)
async def test_code_that_cannot_be_loaded_says_why(tmp_path: Path, code: str, said: str) -> None:
    write_skill(tmp_path / "skills", "do-it", code=code)
    assert said in await fails(tmp_path, find(tmp_path / "skills", "do-it"))


@pytest.mark.parametrize(
    "body",
    [
        "time.sleep(1000)",
        "while True: pass",
        "await trio.sleep_forever()",
        "[signal.signal(each, signal.SIG_IGN) for each in (15, signal.SIGIO)]; time.sleep(1000)",
        "subprocess.run(['sleep', '1000'])",
    ],
)
async def test_one_that_never_ends_is_killed_when_its_time_is_over(tmp_path: Path, body: str) -> None:
    skill = made(tmp_path, body, head="import signal, subprocess, time, trio")
    assert "took longer than 0.3 s" in await fails(tmp_path, skill, own_s=0.3)


async def test_what_it_waits_for_is_not_its_own_time(tmp_path: Path) -> None:
    class Slow(Chat):
        async def call(self, name: str, arguments: Mapping[str, object]) -> CallReply:
            await trio.sleep(1.5)
            return await super().call(name, arguments)

    skill = made(tmp_path, "return (await context.tool('echo', text='late')).output")
    assert await run(tmp_path, skill, Slow(), own_s=1.0) == "late"


async def test_cancelled_it_leaves_no_process_nor_what_it_has_started(tmp_path: Path) -> None:
    marker = f"86{os.getpid()}.5"
    skill = made(
        tmp_path,
        f"""
        subprocess.Popen(["sleep", "{marker}"])
        await context.tool("echo", text="started")
        time.sleep(1000)
        """,
        head="import subprocess, time",
    )
    started = trio.Event()

    class Told(Chat):
        async def call(self, name: str, arguments: Mapping[str, object]) -> CallReply:
            started.set()
            return await super().call(name, arguments)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, tmp_path, skill, Told())
        with trio.fail_after(20):
            await started.wait()
        _until(lambda: alive(marker))  # an exec gives its name a moment after it has succeeded
        nursery.cancel_scope.cancel()
    assert not alive(marker)


@pytest.mark.parametrize("rest", ["", "time.sleep(1000)", "raise ValueError"])
async def test_what_it_has_started_in_a_session_of_its_own_ends_with_it_however_it_does(
    tmp_path: Path, rest: str
) -> None:
    marker = f"88{os.getpid()}.5"
    skill = made(
        tmp_path,
        f"""
        subprocess.run(["sh", "-c", "setsid sleep {marker} & setsid sh -c 'sleep {marker}; true' &"])
        await context.tool("echo", text="started")
        {rest}
        """,
        head="import subprocess, time",
    )
    seen: list[bool] = []

    class Looks(Chat):
        async def call(self, name: str, arguments: Mapping[str, object]) -> CallReply:
            _until(lambda: len(alive(marker)) == 3)
            seen.append(True)
            return await super().call(name, arguments)

    with suppress(SkillError):
        await run(tmp_path, skill, Looks(), own_s=1.0)
    assert seen
    assert not alive(marker)


def test_a_parent_that_is_killed_takes_it_along(tmp_path: Path) -> None:
    marker = f"87{os.getpid()}.5"
    made(
        tmp_path,
        f"""
        subprocess.Popen(["sleep", "{marker}"])
        Path(context.input).write_text("up")
        time.sleep(1000)
        """,
        head="import subprocess, time\nfrom pathlib import Path",
    )
    up = tmp_path / "up"
    script = f"""
import trio
from pathlib import Path
from tests.agent.skills.test_running import find, run
here = Path({str(tmp_path)!r})
trio.run(lambda: run(here, find(here / "skills", "do-it"), skill_input={str(up)!r}, own_s=100))
"""
    root = Path(__file__).parents[3]
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=root, stderr=subprocess.DEVNULL)
    try:
        _until(lambda: up.exists() and alive(marker))
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    _until(lambda: not alive(marker))


def _until(true: object, bound_s: float = 30.0) -> None:
    assert callable(true)
    end = time.monotonic() + bound_s
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


async def test_a_projects_code_runs_only_with_the_content_that_was_trusted(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    code = (
        "class DoItSkill:\n    async def run(self, context):\n        import part\n        return part.WORD\n"
    )
    folder = write_skill(project, "do-it", code=code)
    (folder / "part.py").write_text("WORD = 'first'")
    skill = find(project, "do-it", "project")
    trusted = TrustedSkills(home / "skills-trusted.json")
    assert "rumi skills trust do-it" in await fails(home, skill)
    trusted.trust(folder, snapshot(folder))
    assert await run(home, skill) == "first"
    for change in ("other", "first"):
        (folder / "part.py").write_text(f"WORD = '{change}'")
        if change == "other":
            assert "not trusted" in await fails(home, skill)
    assert await run(home, skill) == "first"
    (folder / "new.py").write_text("")
    assert "not trusted" in await fails(home, skill)
    (folder / "new.py").unlink()
    (folder / "part.py").chmod(0o755)
    assert "not trusted" in await fails(home, skill)
    assert (home / "skills-trusted.json").stat().st_mode & 0o777 == 0o600


async def test_caches_beside_a_projects_code_are_neither_pinned_nor_run(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    code = "import os\nclass DoItSkill:\n    async def run(self, context):\n"
    code += "        return ' '.join(sorted(os.listdir(os.path.dirname(__file__))))\n"
    folder = write_skill(project, "do-it", code=code)
    TrustedSkills(home / "skills-trusted.json").trust(folder, snapshot(folder))
    py_compile.compile(str(folder / "skill.py"))
    (folder / ".pytest_cache").mkdir()
    (folder / ".pytest_cache" / "README.md").write_text("x")
    assert await run(home, find(project, "do-it", "project")) == "SKILL.md skill.py"


async def test_what_changes_behind_the_check_is_not_run(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    code = (
        "class DoItSkill:\n    async def run(self, context):\n"
        "        await context.tool('echo', text='now')\n        import late\n        return late.WORD\n"
    )
    folder = write_skill(project, "do-it", code=code)
    (folder / "late.py").write_text("WORD = 'trusted'")
    TrustedSkills(home / "skills-trusted.json").trust(folder, snapshot(folder))

    class Meanwhile(Chat):
        async def call(self, name: str, arguments: Mapping[str, object]) -> CallReply:
            (folder / "late.py").write_text("WORD = 'evil'")
            return await super().call(name, arguments)

    assert await run(home, find(project, "do-it", "project"), Meanwhile()) == "trusted"


async def test_a_link_in_a_projects_skill_cannot_be_trusted(tmp_path: Path) -> None:
    folder = write_skill(tmp_path / "project", "do-it", code="x")
    (folder / "part.py").symlink_to("/etc/passwd")
    with pytest.raises(SkillError, match=r"part\.py in it is not an ordinary file"):
        snapshot(folder)
    assert "part.py" in await fails(tmp_path, find(tmp_path / "project", "do-it", "project"))


@pytest.mark.parametrize(
    "text", ["", "no json", "[]", '{"skills": []}', '{"skills": {"a": 1}}', "[" * 100_000]
)
def test_a_broken_list_of_trust_trusts_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "skills-trusted.json").write_text(text)
    assert TrustedSkills(tmp_path / "skills-trusted.json").pins() == {}
