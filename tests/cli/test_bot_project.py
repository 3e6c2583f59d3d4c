"""`rumi bot run --workspace`: a bot works on a copy of a folder, and people bring its changes back."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from tests.cli.program import Program
from tests.cli.test_bot import CONFIG, calls, garden, model, run, session_is, system
from tests.fakes.git_server import git
from tests.fakes.groq_server import Answer, Behaviour, Body, answered_calls

DONE = Answer("GARDEN DONE")
PLAIN = CONFIG.replace("skip_git_check = true\n", "")


def a_project(folder: Path) -> Path:
    """A work tree with a commit, a change that is not committed, a new file, and an ignored one."""
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").write_text("one\ntwo\nthree\n")
    (folder / "src" / "b.py").write_text("to be moved\n")
    (folder / "gone.txt").write_text("gone\n")
    (folder / "pixel.bin").write_bytes(b"\0\1\2")
    (folder / ".gitignore").write_text("*.log\nsecret/\n")
    git(folder, "init", "--quiet", "--initial-branch=main", ".")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=Begin")
    (folder / "src" / "a.py").write_text("one\nTWO\nthree\n")
    (folder / "new.txt").write_text("new\n")
    (folder / "noise.log").write_text("noise\n")
    (folder / "secret").mkdir()
    (folder / "secret" / "key").write_text("hidden")
    (folder / "tracked.log").write_text("kept\n")
    git(folder, "add", "--force", "tracked.log")
    return folder


def files_of(folder: Path) -> dict[str, bytes | str]:
    """All files and links below a folder, except what git has for itself."""
    found: dict[str, bytes | str] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file() and not name.startswith(".git/"):
            found[name] = path.read_bytes()
    return found


def does(*commands: str) -> Callable[[Body], Behaviour]:
    """A model that runs these commands, one after the other, and ends."""

    def think(body: Body) -> Behaviour:
        done = len(answered_calls(body))
        return calls(("bash", {"command": commands[done]})) if done < len(commands) else DONE

    return think


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return a_project(tmp_path / "project")


@pytest.fixture
def bot(bubblewrap: Program) -> Program:
    garden(bubblewrap, PLAIN)
    bubblewrap.env["RUMI_SANDBOX__TOOLS"] = "work"
    bubblewrap.env["RUMI_SANDBOX__POLICY"] = "open"
    return bubblewrap


def copy_of(program: Program) -> Path:
    """The bot's copy, for changes that no command of a model would be allowed to make."""
    return program.home / "workspace" / "bot.garden" / "project"


async def given(program: Program, folder: Path, *words: str) -> None:
    """Run a session that gives the bot the folder and changes nothing."""
    async with model(program, lambda body: DONE):
        await run(program, "bot", "run", "garden", "--workspace", str(folder), *words)


@pytest.mark.long
async def test_changes_of_a_bot_are_shown_and_come_back_after_a_yes(bot: Program, project: Path) -> None:
    before, head = files_of(project), (project / ".git" / "HEAD").read_bytes()
    commands = (
        "cd project && git log --oneline && git status --short && ls",
        "cd project && sed -i s/three/THREE/ src/a.py && mv src/b.py moved.py && rm gone.txt "
        "&& printf 'x\\0y' > pixel.bin && mkdir -p deep/er && echo hi > deep/er/hi.txt && chmod +x new.txt "
        "&& touch more.log && git add -A && git -c user.name=b -c user.email=b commit -q -m Work",
    )
    async with model(bot, does(*commands)) as bodies:
        done = await run(bot, "bot", "run", "garden", "--workspace", str(project), "-p", "Work.")
        seen = answered_calls(bodies[-1])[0]
        assert "Begin" in seen
        assert " M src/a.py" in seen
        assert "noise.log" not in seen
        assert "tracked.log" in seen
        assert '<project name="project" folder="/workspace/project" kind="with-git">' in system(bodies[0])
        assert "copying" in done.stderr
    assert not (copy_of(bot) / "secret").exists()
    assert files_of(project) == before
    diff = (await run(bot, "bot", "diff", "garden")).stdout
    for part in (
        "--- a/src/a.py\n+++ b/src/a.py\n@@ -1,3 +1,3 @@\n one\n TWO\n-three\n+THREE\n",
        "rename from src/b.py\nrename to moved.py\n",
        "deleted file mode 100644\n--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n",
        "Binary files a/pixel.bin and b/pixel.bin differ (3 → 3 bytes)\n",
        "new file mode 100644\n--- /dev/null\n+++ b/deep/er/hi.txt\n@@ -0,0 +1 @@\n+hi\n",
        "diff --git a/new.txt b/new.txt\nold mode 100644\nnew mode 100755\n",
    ):
        assert part in diff, diff
    assert "more.log" not in diff
    stat = (await run(bot, "bot", "diff", "garden", "--stat")).stdout.splitlines()
    shown = {"A deep/er/hi.txt", "D gone.txt", "M pixel.bin", "M src/a.py", "R src/b.py → moved.py"}
    assert set(stat) == {*shown, "m new.txt"}
    again = await run(bot, "bot", "run", "garden", "--workspace", str(project), code=2)
    assert "changes that were not applied" in again.stderr
    assert "rumi bot apply garden" in again.stderr

    await trio.to_thread.run_sync(lambda: bot.run("bot", "apply", "garden", text="n\n", code=1))
    assert files_of(project) == before
    yes = await trio.to_thread.run_sync(lambda: bot.run("bot", "apply", "garden", text="y\n"))
    assert diff in yes.stdout
    assert "7 files changed" in yes.stdout
    after = files_of(project)
    assert after["src/a.py"] == b"one\nTWO\nTHREE\n"
    assert after["moved.py"] == b"to be moved\n"
    assert after["deep/er/hi.txt"] == b"hi\n"
    assert after["pixel.bin"] == b"x\0y"
    assert after["noise.log"] == b"noise\n"
    assert not {"gone.txt", "src/b.py", "more.log"} & after.keys()
    assert os.access(project / "new.txt", os.X_OK)
    assert (project / ".git" / "HEAD").read_bytes() == head
    assert [entry.name for entry in project.iterdir() if entry.name.startswith(".rumi")] == []
    assert (await run(bot, "bot", "diff", "garden")).stdout == ""
    await given(bot, project)


@pytest.mark.long
async def test_a_folder_without_git_is_refused_or_copied(bot: Program, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "a.txt").write_text("a\n")
    os.symlink("/etc/passwd", folder / "out")
    os.mkfifo(folder / "pipe")
    before = files_of(folder)
    async with model(bot, lambda body: DONE) as bodies:
        words = ("bot", "run", "garden", "--workspace", str(folder))
        nowhere = await run(bot, *words[:-1], str(folder / "nowhere"), code=2)
        assert "is not a folder" in nowhere.stderr
        for more in ((), ("--background",)):
            refused = await run(bot, *words, *more, code=2)
            assert "--skip-git-check" in refused.stderr
        assert bodies == []
        assert not copy_of(bot).exists()
        spanish = Program(bot.home, {**bot.env, "LANG": "es_AR.UTF-8"})
        assert "git init" in (text := (await run(spanish, *words, code=2)).stderr)
        assert "no está en una carpeta de git" in text
        done = await run(bot, *words, "--skip-git-check")
        assert "left out: pipe" in done.stderr
        assert 'kind="plain"' in system(bodies[-1])
        assert files_of(copy_of(bot)) == before
        garden_config = bot.home / "bots" / "garden" / "config.md"
        garden_config.write_text(CONFIG)
        await run(bot, *words)
        (folder / "big").write_bytes(b"x" * 3_000_000)
        bot.env["RUMI_SANDBOX__WORKSPACE_MB"] = "2"
        assert "more than" in (await run(bot, *words, code=2)).stderr
        del bot.env["RUMI_SANDBOX__WORKSPACE_MB"]
        (folder / "big").write_bytes(b"x" * 9_000_000)
        await run(bot, *words)
        assert files_of(copy_of(bot)) == files_of(folder)
        assert "no project" in (await self_made(bot)).stderr


async def self_made(program: Program) -> "object":
    await run(program, "bot", "create", "other")
    return await run(program, "bot", "diff", "other", code=2)


@pytest.mark.long
async def test_what_changed_in_both_is_a_conflict_and_nothing_is_applied(bot: Program, project: Path) -> None:
    await given(bot, project)
    copy = copy_of(bot)
    (copy / "src" / "a.py").write_text("bot\n")
    (copy / "src" / "b.py").write_text("bot\n")
    (copy / "added").write_text("bot\n")
    (project / "src" / "a.py").write_text("user\n")
    (project / "added").write_text("user\n")
    before = files_of(project)
    refused = await run(bot, "bot", "apply", "garden", "--yes", code=2)
    assert "added, src/a.py" in refused.stderr
    assert files_of(project) == before
    (project / "src" / "a.py").write_text("one\nTWO\nthree\n")
    (project / "added").unlink()
    (project / "src" / "b.py").write_text("bot\n")  # as after a kill: a part is there already
    (project / "unrelated").write_text("user\n")
    done = await run(bot, "bot", "apply", "garden", "--yes")
    assert "2 files changed" in done.stdout
    assert files_of(project)["src/a.py"] == b"bot\n"
    assert (await run(bot, "bot", "diff", "garden")).stdout == ""


@pytest.mark.long
async def test_a_hostile_project_writes_nothing_outside(bot: Program, project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.py").write_text("outside\n")
    (project / ".git" / "hooks").mkdir(exist_ok=True)
    await given(bot, project)
    copy = copy_of(bot)
    shutil.rmtree(copy / "src")
    os.symlink(outside, copy / "src")  # a link in the place of a folder
    shutil.rmtree(copy / ".git")
    os.symlink(project / ".git", copy / ".git")
    (copy / "vendor" / ".git" / "hooks").mkdir(parents=True)
    (copy / "vendor" / ".git" / "config").write_text("[core]\nfsmonitor = touch /tmp/owned\n")
    (copy / ".GIT").mkdir()
    (copy / ".GIT" / "config").write_text("x")
    (copy / ".git ").write_text("x")
    for name, target in (("up", "../x"), ("git", ".git/config"), ("fine", "new.txt"), ("d", "a/../../x")):
        os.symlink(target, copy / name)
    os.mkfifo(copy / "pipe")
    (copy / "\x1b]0;owned\x07\u202e\n.txt").write_text("\x1b[2Jline\rline\n\u202eevil\n")
    (copy / "new.txt").chmod(0o6777)
    (copy / "huge").touch()
    os.truncate(copy / "huge", 1 << 40)
    git_before = {path: path.lstat().st_mtime_ns for path in (project / ".git").rglob("*")}
    assert "more than" in (await run(bot, "bot", "apply", "garden", "--yes", code=2)).stderr
    (copy / "huge").unlink()
    done = await run(bot, "bot", "apply", "garden", "--yes")
    assert "\x1b" not in done.stdout + done.stderr
    assert "\u202e" not in done.stdout + done.stderr
    assert "+\\x1b[2Jline\\rline" in done.stdout
    for name in ("vendor/.git", ".GIT", ".git ", "up", "git", "d", "src", "pipe"):
        assert f"left out: {name} (" in done.stderr, done.stderr
    after = files_of(project)
    assert after["fine"] == "new.txt"
    assert not {"up", "git", "d", ".GIT/config", "vendor/.git/config"} & after.keys()
    assert (project / "src" / "a.py").exists()
    assert (project / "new.txt").stat().st_mode & 0o7000 == 0
    assert {path: path.lstat().st_mtime_ns for path in (project / ".git").rglob("*")} == git_before
    assert files_of(outside) == {"a.py": b"outside\n"}
    # A link that the user has in the place of a folder leads nowhere either.
    await given(bot, project, "--discard")
    (copy / "src" / "a.py").write_text("bot\n")
    shutil.rmtree(project / "src")
    os.symlink(outside, project / "src")
    assert "src/a.py" in (await run(bot, "bot", "apply", "garden", "--yes", code=2)).stderr
    assert files_of(outside) == {"a.py": b"outside\n"}


@pytest.mark.long
async def test_a_file_becomes_a_folder_and_a_folder_a_file(bot: Program, project: Path) -> None:
    await given(bot, project)
    copy = copy_of(bot)
    shutil.rmtree(copy / "src")
    (copy / "src").write_text("file\n")
    (copy / "gone.txt").unlink()
    (copy / "gone.txt").mkdir()
    (copy / "gone.txt" / "in").write_text("in\n")
    await run(bot, "bot", "apply", "garden", "--yes")
    after = files_of(project)
    assert (after["src"], after["gone.txt/in"]) == (b"file\n", b"in\n")
    assert (await run(bot, "bot", "diff", "garden")).stdout == ""


@pytest.mark.long
async def test_a_session_that_is_killed_goes_on_with_its_project(bot: Program, project: Path) -> None:
    def think(body: Body) -> Behaviour:
        if "iteration 1 " in system(body) and "Work." in str(body["messages"][1:]):
            if len(answered_calls(body)) == 0:
                return calls(("bash", {"command": "cd project && echo more > more.txt"}))
            if len(answered_calls(body)) == 1:
                return calls(("sleep", {"seconds": 3600, "reason": "night"}))
            return Answer("I sleep.")
        return DONE

    async with model(bot, think):
        bot.env["RUMI_SESSION__LINGER_S"] = "600"
        words = ("bot", "run", "garden", "--workspace", str(project))
        await run(bot, *words, "-p", "Work.", "--background")
        await session_is(bot, "sleeping", 1)
        os.kill(bot.serving(), signal.SIGKILL)
        assert "+more" in (await run(bot, "bot", "diff", "garden")).stdout
        await run(bot, "chat", "-p", "/bot garden Go on.")
        await session_is(bot, "succeeded", 2)
        assert "+more" in (await run(bot, "bot", "diff", "garden")).stdout
        # It goes on with what it has, and a fresh copy is refused until its changes are applied or discarded.
        await run(bot, *words, "--resume", code=None)
        assert "+more" in (await run(bot, "bot", "diff", "garden")).stdout
        assert "--discard" in (await run(bot, *words, code=2)).stderr
        await run(bot, *words, "--discard")
        assert (await run(bot, "bot", "diff", "garden")).stdout == ""
        await run(bot, "stop", "--all", code=None)


async def test_a_bot_that_only_reads_gets_the_project(program: Program, project: Path) -> None:
    def think(body: Body) -> Behaviour:
        done = answered_calls(body)
        if not done:
            return calls(("read", {"path": "project/src/a.py"}))
        return Answer(f"{done[0]}\nGARDEN DONE")

    garden(program, PLAIN.replace("workspace-write", "read-only"))
    async with model(program, think):
        done = await run(program, "bot", "run", "garden", "--workspace", str(project))
        assert "TWO" in done.stdout
    (copy_of(program) / "src" / "a.py").write_text("bot\n")
    assert "-TWO" in (await run(program, "bot", "diff", "garden")).stdout
    await run(program, "bot", "apply", "garden", "--yes")
    assert (project / "src" / "a.py").read_text() == "bot\n"


@pytest.mark.long
async def test_agents_md_of_a_project_is_the_users_until_the_bot_changes_it(
    bot: Program, project: Path
) -> None:
    (project / "AGENTS.md").write_text("Use tabs.")
    words = ("bot", "run", "garden", "--workspace", str(project))
    async with model(bot, lambda body: DONE) as bodies:
        await run(bot, *words)
        assert "for work in this folder, from AGENTS.md:\nUse tabs." in system(bodies[0])
        assert "Today is " in system(bodies[0])
        (copy_of(bot) / "AGENTS.md").write_text("Use spaces.")
        await run(bot, "bot", "run", "garden")
        said = system(bodies[-1])
        assert "for work in this folder" not in said
        assert '<page source="AGENTS.md">\nUse spaces.\n</page>' in said


@pytest.mark.long
async def test_a_bots_project_is_deleted_with_it(bot: Program, project: Path) -> None:
    await given(bot, project)
    await run(bot, "bot", "delete", "garden")
    assert not (bot.home / "bots" / "garden").exists()
    assert files_of(project)
    assert json.loads((await run(bot, "bot", "list", "--json")).stdout) == []
