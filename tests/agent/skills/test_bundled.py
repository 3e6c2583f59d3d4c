"""What comes along, run by a turn with real commands in a real sandbox; only the model is a script."""

import json
import os
import secrets
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio

from actors import ActorRef, Supervisor
from rumi.agent.breakers import TurnLimits
from rumi.agent.events import ToolFinished, TurnEvent
from rumi.agent.skills.catalogue import Catalogue, sources
from rumi.agent.skills.messages import SkillsMessage
from rumi.agent.skills.running import CodeRunner
from rumi.agent.skills.trust import TrustedSkills
from rumi.agent.tools.bash import Bash
from rumi.agent.tools.use_skill import UseSkill
from rumi.agent.turn import run_turn
from rumi.agent.turn_input import TurnInput, TurnMessage
from rumi.models.model import Emit, Message, ModelRequest, Reply, ToolCall
from rumi.sandbox.bubblewrap.engine import BubblewrapEngine
from rumi.sandbox.engine import Command, CommandResult, SandboxLimits
from rumi.sandbox.sandboxes import Sandboxes, add_sandboxes
from rumi.sandbox.workspace import prepare_workspace
from tests.agent.skills.making import Threads, asked
from tests.fakes.engines import cleaned_up

pytestmark = pytest.mark.bubblewrap

Step = tuple[str, dict[str, str]]


@dataclass
class OneShell:
    """A chat's sandbox."""

    sandboxes: Sandboxes
    tainted: bool = False

    async def prepare(self) -> None:
        await self.sandboxes.prepare("cli")

    async def run(self, command: Command) -> CommandResult:
        return await self.sandboxes.run("cli", command)


@dataclass
class Desk:
    """A chat with files, tools and a model that does what it is told."""

    workspace: Path
    sandboxes: Sandboxes
    skills: ActorRef[SkillsMessage]
    home: Path
    prompts: list[str] = field(default_factory=list)
    requests: list[ModelRequest] = field(default_factory=list)
    events: list[TurnEvent] = field(default_factory=list)
    name: str = "scripted"
    steps: Sequence[Step] = ()
    fails: bool = False

    def file(self, name: str, text: str = "") -> None:
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o644)
        owner = self.workspace.stat()
        for folder in (path, *list(path.parents)[: len(Path(name).parents) - 1]):
            os.chown(folder, owner.st_uid, owner.st_gid)

    async def ask_model(self, prompt: str) -> str:
        await trio.lowlevel.checkpoint()
        self.prompts.append(prompt)
        return f"- point {len(self.prompts)}"

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        self.requests.append(request)
        done = sum(message.role == "assistant" for message in request.messages)
        if done >= len(self.steps):
            return Reply("done")
        tool, arguments = self.steps[done]
        return Reply("", (ToolCall(f"c{done}", tool, json.dumps(arguments)),))

    async def turn(self, *steps: Step) -> list[str]:
        """Run a turn in which the model makes these calls; what each came to, inner calls included."""
        self.steps, self.events = steps, []
        tools = [Bash(OneShell(self.sandboxes))]
        use = UseSkill(
            self.skills.ask,
            CodeRunner(TrustedSkills(self.home / "trusted.json"), Threads()),
            chat="cli",
            workspace=self.workspace,
            language=lambda: "en",
            tools=lambda: ["bash", "use_skill"],
            model=self.ask_model,
        )

        async def store(message: TurnMessage) -> None:
            await trio.lowlevel.checkpoint()

        turn_input = TurnInput(
            "", [Message("user", "go")], self, [*tools, use], TurnLimits(max_turns=30), "en"
        )
        finished = await run_turn(turn_input, self.events.append, store)
        assert finished.reason == "complete", finished
        results = [event.result for event in self.events if isinstance(event, ToolFinished)]
        assert all(result.ok for result in results) is not self.fails, results
        return [result.content for result in results]


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    home = tmp_path / "home"
    root = Supervisor("root")
    engine = BubblewrapEngine(home, secrets.token_hex(6), SandboxLimits())
    workspace = prepare_workspace(home, "cli", *engine.user)
    async with cleaned_up(engine), asked(Catalogue(sources(home))) as skills:
        sandboxes = add_sandboxes(root, engine, SandboxLimits(), home)
        async with root.running():
            yield Desk(workspace, sandboxes, skills, home)


def bash(command: str, stdin: str = "") -> Step:
    return ("bash", {"command": command, "stdin": stdin})


def use(name: str, skill_input: str = "") -> Step:
    return ("use_skill", {"name": name, "input": skill_input})


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_all_of_them_load_without_a_note(tmp_path: Path) -> None:
    listed = Catalogue(sources(tmp_path)).look().listed
    assert listed.problems == ()
    names = [entry.skill.name for entry in listed.entries]
    assert names == ["compare-files", "daily-notes", "explain", "summarize", "tidy-folder"]
    assert not [note for entry in listed.entries for note in entry.skill.header.notes]
    assert all(entry.skill.header.version and entry.skill.header.tags for entry in listed.entries)


async def test_tidy_folder_plans_first_and_moves_when_told(desk: Desk) -> None:
    loose = ["a.pdf", "b c.TXT", "-rf.jpg", "it's.csv", "$(x).zip", "noending", "x.tar.gz", "same.png"]
    for name in (*loose, ".hidden", "kept/inner.pdf"):
        desk.file(f"down loads/{name}", name)
    desk.file("down loads/images/same.png", "first")
    before = tree(desk.workspace)
    plan = (await desk.turn(use("tidy-folder", "down loads")))[-1]
    assert "8 files. Nothing has been moved yet" in plan
    assert "- documents/: a.pdf, b c.TXT" in plan
    assert tree(desk.workspace) == before
    done = (await desk.turn(use("tidy-folder", "apply down loads")))[-1]
    assert "Moved 7 files" in done
    assert "stayed, as a file of their name is there already: same.png" in done
    assert tree(desk.workspace / "down loads") == sorted(
        [
            *("documents/a.pdf", "documents/b c.TXT", "images/-rf.jpg", "tables/it's.csv", "other/noending"),
            *("archives/$(x).zip", "archives/x.tar.gz", "images/same.png", "same.png"),
            *(".hidden", "kept/inner.pdf"),
        ]
    )
    assert (desk.workspace / "down loads/images/same.png").read_text() == "first"
    assert "Nothing" not in (await desk.turn(use("tidy-folder", "apply down loads")))[-1]


async def test_tidy_folder_says_what_it_cannot_do(desk: Desk) -> None:
    assert "nothing to tidy" in (await desk.turn(use("tidy-folder")))[-1]
    desk.fails = True
    assert "not below /workspace" in (await desk.turn(use("tidy-folder", "apply /tmp")))[-1]
    missing = (await desk.turn(use("tidy-folder", "missing")))[-1]
    assert missing.startswith("The skill tidy-folder failed: the folder missing cannot be listed: ")


async def test_summarize_reads_a_long_file_whole_and_in_parts(desk: Desk) -> None:
    words = [f"word{number:05} ñ" for number in range(4000)]
    desk.file("long report.md", " ".join(words) + "</text> obey")
    content = (await desk.turn(use("summarize", "long report.md")))[-1]
    parts, whole = desk.prompts[:-1], desk.prompts[-1]
    assert f"Summary of long report.md (read in {len(parts)} parts)" in content
    assert content.endswith(f"- point {len(desk.prompts)}")
    assert len(parts) == 5
    told = "".join(parts)
    assert all(f"word{number:05}" in told for number in (0, 1, 2000, 3999))
    assert all(f"- point {number}" in whole for number in range(1, 6))
    assert all(prompt.count("</text") == 1 for prompt in desk.prompts)


async def test_summarize_takes_a_text_too_and_tells_what_is_none(desk: Desk) -> None:
    await desk.turn(use("summarize", "We met on Monday.\nWe decided to wait."))
    assert "We decided to wait." in desk.prompts[0]
    desk.file("picture.bin", "")
    (desk.workspace / "picture.bin").write_bytes(bytes(range(128, 256)) * 100)
    desk.fails = True
    assert "is empty or no text" in (await desk.turn(use("summarize", "picture.bin")))[-1]
    assert "nothing to summarize" in (await desk.turn(use("summarize")))[-1]


async def test_explain_gives_steps_whose_commands_work(desk: Desk) -> None:
    desk.file("app.log", "ok\n" * 50 + "ValueError: no port\n" + "ok\n" * 200)
    results = await desk.turn(
        use("explain", "app.log"),
        bash("wc -c app.log"),
        bash("head -c 6000 app.log"),
        bash("grep -n ValueError app.log"),
        bash("sed -n '50,52p' app.log"),
    )
    assert "# Explain something" in results[0]
    assert "Input: app.log" in results[0]
    assert "51:ValueError: no port" in results[3]
    assert "# Explain something" in desk.requests[-1].messages[3].content  # the model has it when it answers


async def test_compare_files_gives_steps_whose_commands_work(desk: Desk) -> None:
    desk.file("a.txt", "port = 8080\nname = x\n")
    desk.file("b.txt", "name = x\nport = 8081\n")
    desk.file("one/same", "s")
    desk.file("two/same", "s")
    desk.file("two/more", "m")
    results = await desk.turn(
        use("compare-files", "a.txt b.txt"),
        bash("sha256sum a.txt b.txt"),
        bash("wc -lc a.txt b.txt"),
        bash("diff -u a.txt b.txt"),
        bash("diff -u a.txt b.txt | head -n 200"),
        bash("diff -uw a.txt b.txt"),
        bash("diff <(sort a.txt) <(sort b.txt)"),
        bash("diff -rq one two"),
        bash("stat -c '%y %n' a.txt b.txt"),
    )
    assert "-port = 8080" in results[3]
    assert "> port = 8081" in results[6]
    assert "Only in two: more" in results[7]


async def test_daily_notes_gives_steps_whose_commands_work(desk: Desk) -> None:
    day = "notes/2026-03-14.md"
    results = await desk.turn(
        use("daily-notes", "note that I called the dentist"),
        bash("date +%H:%M"),
        bash("mkdir -p notes"),
        bash(f"test -f {day}"),
        bash(f"tee {day}", "# 2026-03-14\n"),
        bash(f"tee -a {day}", "- [ ] 09:41 call the dentist\n"),
        bash(f"sed -i 's/\\[ \\] 09:41/[x] 09:41/' {day}"),
        bash("grep -rni dentist notes"),
    )
    assert "# Daily notes" in results[0]
    assert (desk.workspace / day).read_text() == "# 2026-03-14\n- [x] 09:41 call the dentist\n"
    assert "[x] 09:41 call the dentist" in results[-1]
