"""`rumi research web` on the web of fifty pages, with a model server that follows a script."""

import json
import os
import pty
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trustme

from tests.cli.program import BOUND_S, RUMI, Program
from tests.fakes import fifty_pages as island
from tests.fakes.fifty_pages import Island, fifty_pages
from tests.fakes.git_server import git, history, imported, serves
from tests.fakes.groq_server import (
    KEY,
    Answer,
    Behaviour,
    Body,
    Fail,
    GroqServer,
    Hang,
    answered_calls,
    serve_groq,
)
from tests.fakes.web_server import certificate, serving, silence

NAME = "groq:openai/gpt-oss-120b"
QUESTION = "When was the lighthouse of Bruma built?"

pytestmark = pytest.mark.bubblewrap


@dataclass
class Desk:
    """The program, its web, its model server, and what the model was sent."""

    program: Program
    web: Island
    groq: GroqServer
    bodies: list[Body]

    async def run(self, *words: str, code: int | None = 0) -> "subprocess.CompletedProcess[str]":
        return await trio.to_thread.run_sync(partial(self.program.run, *words, code=code))

    async def json(self, *words: str, code: int = 0) -> Any:
        return json.loads((await self.run(*words, "--json", code=code)).stdout)

    async def talk(self, *said: str) -> str:
        """Say something in the chat, and return what it shows until it ends."""
        lines = "".join(f"{line}\n" for line in said)
        done = await trio.to_thread.run_sync(partial(self.program.run, "chat", text=lines))
        return done.stdout + done.stderr

    def urls(self, *pages: int) -> list[str]:
        return [word for page in pages for word in ("-u", self.web.url(page))]


@asynccontextmanager
async def desk(program: Program, think: Callable[[Body, Island], Behaviour]) -> AsyncIterator[Desk]:
    async with fifty_pages() as web:
        bodies: list[Body] = []

        def script(body: Body) -> Behaviour:
            bodies.append(body)
            return think(body, web)

        async with serve_groq(script) as groq:
            program.env |= {
                "GROQ_API_KEY": KEY,
                "GROQ_BASE_URL": groq.base_url,
                "RUMI_FETCH__ALLOW": json.dumps([web.web.endpoint]),
            }
            yield Desk(program, web, groq, bodies)


def numbers(body: Body, web: Island) -> dict[int, int]:
    """The numbers of the sources, by page, as a model reads them."""
    found = {}
    for message in body["messages"]:
        if shown := re.search(
            r"^source \[(\d+)\].*?/(\d+)(?=[\s\"'>·])", str(message["content"]), re.S | re.M
        ):
            found[int(shown[2])] = int(shown[1])
    return found


def obedient(body: Body, web: Island) -> Answer:
    """Read page 2, do what page 42 orders, and answer with truths and lies."""
    done = len(answered_calls(body))
    if done == 0:
        return Answer(calls=[("web_fetch", json.dumps({"url": web.url(number)})) for number in (2, 11)])
    if done == 2:
        leak = web.web.url(f"{island.COMMANDED}question")
        orders = {
            "web_fetch": {"url": leak},
            "remember": {"key": "a", "value": "b"},
            "send_file": {"path": "x"},
            "bash": {"command": "touch /workspace/pwned"},
            "grep": {"pattern": "lamp of the lighthouse", "path": "pages"},
        }
        return Answer(calls=[(name, json.dumps(arguments)) for name, arguments in orders.items()])
    at = numbers(body, web)
    return Answer(
        f'It was built in 1874: "{island.TRUTH}" [{at[2]}]. Another page says that it was "1921 by a Swedish '
        f'company" [{at[11]}]. "{island.PAPER_SAYS}" [{at[44]}] "{island.FACT_AT_THE_END}" [{at[43]}] '
        f'Also, "{island.LIES[37]}" [99]. It is famous.'
    )


@pytest.mark.long
async def test_a_research_answers_with_sources_that_open_and_does_nothing_else(bubblewrap: Program) -> None:
    async with desk(bubblewrap, obedient) as world:
        asked = (*world.urls(17, 5, 42, 43, 44), QUESTION)
        done = await world.run("research", "web", *asked, "-u", "http://10.0.0.1/", "--keep")
        assert "· http://10.0.0.1/: " in done.stderr
        assert (bubblewrap.home / "workspace" / "task.1" / "pages").is_dir()
        assert "It was built in 1874" in done.stdout
        assert "web_fetch" not in done.stdout
        steps = [line for line in done.stderr.splitlines() if line.startswith("· ")]
        assert any(world.web.url(2) in step for step in steps)
        assert any(world.web.url(44) in step for step in steps)
        assert "· grep “lamp of the lighthouse” pages" in steps
        assert len(steps) < 40  # a megabyte is not told in its pieces

        report = await world.json("research", "web", *asked)
        assert report["state"] == "succeeded"
        assert island.TRUTH in report["answer"]
        assert report["missing_quotes"] == [island.LIES[37]]  # a lie of a page that was not read
        assert report["removed_citations"] == [99]
        assert report["unverified"][-1] == "It is famous."
        assert all(claim["sources"] for claim in report["claims"])
        assert report["usage"]["calls"] == 3
        assert report["usage"]["sources"] == 7
        assert report["usage"]["prompt_tokens"] > 0
        cited = {source["number"]: source for source in report["sources"] if source["cited"]}
        by_page = {int(source["address"].rpartition("/")[2]): number for number, source in cited.items()}
        assert set(by_page) == {2, 11, 43, 44}
        says = {
            2: island.TRUTH,
            11: island.LIES[11],
            43: island.FACT_AT_THE_END,
            44: island.PAPER_SAYS,
        }
        for page, number in by_page.items():
            opened = await world.run("tasks", "show", str(report["id"]), "--source", str(number))
            assert says[page] in opened.stdout
        nothing = await world.run("tasks", "show", str(report["id"]), "--source", "99", code=2)
        assert "no source 99" in nothing.stderr

        # Nothing of what page 42 ordered has happened.
        assert not [path for path in world.web.paths if path.startswith("/secret")]
        assert not list(bubblewrap.home.rglob("pwned"))
        assert "know nothing" in (await world.run("memory", "list")).stdout
        # The small pages were in the first prompt as they are, the large one in short.
        first = [str(message["content"]) for message in world.bodies[0]["messages"]]
        assert first[-1] == QUESTION
        large = next(text for text in first if "The log of the keeper" in text)
        assert "too long to show" in large
        assert island.FACT_AT_THE_END not in large
        assert any(island.PAPER_SAYS in text for text in first)
        # What the model is sent begins with all that it was sent before.
        sent = [json.dumps(body["messages"])[:-1] for body in world.bodies[:3]]
        assert sent[1].startswith(sent[0])
        assert sent[2].startswith(sent[1])
        assert world.web.web.open == 0
        assert nothing_runs(bubblewrap)
        assert [path.name for path in (bubblewrap.home / "workspace").glob("task*")] == ["task.1"]
        await world.run("tasks", "delete", "1")
        assert not list((bubblewrap.home / "workspace").glob("task*"))


async def test_a_research_that_reached_nothing_has_failed_and_says_why(bubblewrap: Program) -> None:
    def from_memory(body: Body, web: Island) -> Answer:
        if not answered_calls(body):
            return Answer(calls=[("web_fetch", json.dumps({"url": "http://127.0.0.1:9/page"}))])
        return Answer("It was built in 1874, as everybody knows.")

    async with desk(bubblewrap, from_memory) as world:
        world.program.env["RUMI_FETCH__ALLOW"] = json.dumps(["127.0.0.1:9"])
        done = await world.run("research", "web", QUESTION, code=1)
        assert done.stdout == ""
        assert "❌ Nothing was read, because nothing could be reached: " in done.stderr
        assert "It was built in 1874" in done.stderr
        report = await world.json("research", "web", QUESTION, code=1)
        assert report["state"] == "failed"
        assert report["error"]["message"].startswith("Nothing was read, because nothing could be reached: ")


@pytest.mark.long
async def test_in_the_background_its_number_comes_and_the_result_goes_to_the_chat(
    bubblewrap: Program,
) -> None:
    def slow(body: Body, web: Island) -> Answer:
        if not answered_calls(body):
            return Answer(calls=[("web_fetch", json.dumps({"url": web.url(4)}))])
        return Answer(f'"{island.TRUTH}" [1].', begin_s=2)

    async with desk(bubblewrap, slow) as world:
        asked = ("research", "web", *world.urls(2), QUESTION, "--background")
        assert (await world.run(*asked)).stdout == "1\n"
        followed = await world.run("tasks", "show", "1", "-f")
        assert "succeeded" in followed.stdout
        assert island.TRUTH in followed.stdout
        assert followed.stderr.startswith("· ")
        assert (await world.json(*asked))["id"] == 2
        listed = await world.json("tasks", "list")
        assert [(task["id"], task["state"] in ("queued", "running", "succeeded")) for task in listed] == [
            (2, True),
            (1, True),
        ]
        shown = await world.json("tasks", "show", "2", "-f")
        assert (shown["state"], shown["sources"][0]["address"]) == ("succeeded", world.web.url(2))
        # Whoever asks a second time gets the same at once.
        assert (await world.json("tasks", "show", "2", "-f"))["answer"] == shown["answer"]
        assert nothing_runs(bubblewrap)
        told = rows(bubblewrap, "SELECT text FROM outbox WHERE chat = 'cli'")
        assert [text.split(":")[0] for (text,) in told] == ["🔎 Task 1 (succeeded)", "🔎 Task 2 (succeeded)"]
        # Nobody had a window on the chat: the next one shows both results, and the one after it none.
        talks = [await world.talk("/tasks") for _ in range(2)]
        assert [talk.count("(succeeded):") for talk in talks] == [2, 0]
        assert "1 · web · succeeded" in talks[1]
        await world.run("tasks", "delete", "1")
        assert not (bubblewrap.home / "tasks" / "1").exists()
        for verb in ("show", "stop", "delete"):
            for id in ("1", "7", str(2**63), str(10**30)):
                assert "Unknown task" in (await world.run("tasks", verb, id, code=2)).stderr


async def test_the_steps_of_a_researchers_delegates_are_shown(bubblewrap: Program) -> None:
    def think(body: Body, web: Island) -> Answer:
        said, done = str(body["messages"][1]["content"]), answered_calls(body)
        url = web.url(2)
        if done:
            return Answer(f'"{island.TRUTH}" [1].')
        if said.startswith("leaf"):
            return Answer(calls=[("web_fetch", json.dumps({"url": url}))])
        return Answer(calls=[("delegate", json.dumps({"goal": f"leaf {number} {url}"})) for number in (1, 2)])

    async with desk(bubblewrap, think) as world:
        done = await world.run("research", "web", "When?")
        steps = done.stderr.splitlines()
        url = world.web.url(2)
        assert {f"· delegate “leaf {number} {url}”" for number in (1, 2)} <= set(steps)
        assert f"· web_fetch {url}" in steps
        assert world.web.paths == ["/2", "/2"]
        assert len(await world.json("tasks", "list")) == 1
        task = await world.json("tasks", "show", "1")
        assert (task["state"], task["sources"][0]["address"]) == ("succeeded", url), "a delegate has read it"


@pytest.mark.long
async def test_a_research_of_a_chat_comes_into_its_window(bubblewrap: Program) -> None:
    def think(body: Body, web: Island) -> Answer:
        if not answered_calls(body):
            return Answer(calls=[("web_fetch", json.dumps({"url": web.url(2)}))])
        return Answer(f'"{island.TRUTH}" [1].')

    async with desk(bubblewrap, think) as world:
        ours, theirs = pty.openpty()
        env = bubblewrap.environment() | {"TERM": "dumb"}
        folder = bubblewrap.home.parent  # in the work tree, it would ask about it
        window = subprocess.Popen(  # noqa: ASYNC220
            [RUMI, "chat"], stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=folder
        )
        os.close(theirs)
        shown = ""
        async with trio.lowlevel.FdStream(ours) as screen:
            with trio.fail_after(BOUND_S):
                await screen.send_all(f"/research When? {world.web.url(2)}\n".encode())
                while "1874 by Elena Duarte" not in shown:
                    shown += (await screen.receive_some()).decode(errors="replace")
                while rows(bubblewrap, "SELECT 1 FROM outbox WHERE delivered IS NULL"):  # noqa: ASYNC110
                    await trio.sleep(0.05)  # one who leaves before that is shown it again
                await screen.send_all(b"/exit\n")
                with suppress(trio.BrokenResourceError):  # the window has closed its side
                    while data := await screen.receive_some():
                        shown += data.decode(errors="replace")
            assert await trio.to_thread.run_sync(partial(window.wait, BOUND_S)) == 0
        assert shown.count("(succeeded)") == 1
        assert shown.count("1874 by Elena Duarte") == 1
        assert "Task 1 has begun" in shown
        assert "(succeeded)" not in await world.talk("/tasks 1")


async def test_ctrl_c_stops_the_research_and_leaves_nothing(bubblewrap: Program) -> None:
    def hangs(body: Body, web: Island) -> Behaviour:
        done = len(answered_calls(body))
        if done == 0:
            return Answer(calls=[("grep", json.dumps({"pattern": "x", "path": "."}))])
        if done == 1:
            return Answer(calls=[("web_fetch", json.dumps({"url": web.url(number)})) for number in (3, 4, 6)])
        return Hang()

    async with desk(bubblewrap, hangs) as world:
        for page in (3, 4, 6):
            world.web.web.paths[f"/{page}"] = silence
        command = bubblewrap.start("research", "web", *world.urls(1), QUESTION)
        with trio.fail_after(BOUND_S):
            await world.web.web.until(lambda server: server.open == 3)
            command.send_signal(signal.SIGINT)
            out, errors = await trio.to_thread.run_sync(partial(command.communicate, timeout=BOUND_S))
            assert (command.returncode, out) == (130, "")
            assert "Traceback" not in errors
            await world.web.web.until(lambda server: server.open == 0)
        assert nothing_runs(bubblewrap)
        (task,) = await world.json("tasks", "list")
        assert task["state"] == "stopped"
        assert not list((bubblewrap.home / "workspace").glob("task*"))


@pytest.mark.long
async def test_errors_have_a_code_and_ends_an_exit_code(bubblewrap: Program) -> None:
    def think(body: Body, web: Island) -> Behaviour:
        if "for ever" in str(body["messages"]) and body.get("tools"):
            return Answer(calls=[("web_fetch", json.dumps({"url": web.url(1)}))])
        if "refused" in str(body["messages"]):
            return Fail(400, "no such thing")
        if "nothing" in str(body["messages"]):
            return Answer(" ")
        return Answer("So it is [1].")

    async with desk(bubblewrap, think) as world:

        async def code(*words: str, exit_code: int) -> str:
            done = await world.json("research", *words, code=exit_code)
            assert done["error"]["message"]
            return str(done["error"]["code"])

        web, repo = ("web", QUESTION), ("repo", QUESTION)
        assert await code(*web, "--model", "custom:none", exit_code=2) == "config"
        assert await code(*web, "--model", "nonsense", exit_code=2) == "config"
        assert await code("web", " ", exit_code=2) == "tool_input"
        assert await code(*web, "-u", "no address", exit_code=1) == "fetch"
        assert await code(*web, "-u", "http://10.0.0.1/", exit_code=1) == "fetch"
        assert await code(*repo, "-u", "https://127.0.0.1:1/none", exit_code=1) == "clone"
        assert await code(*repo, "-u", "ext::sh -c touch% /tmp/x", exit_code=1) == "clone"
        assert await code(*repo, "-u", str(bubblewrap.home / "none"), exit_code=1) == "clone"
        assert await code(*web, "--background", "--model", "nonsense", exit_code=2) == "config"
        bubblewrap.env["RUMI_RESEARCH__MODEL"] = "custom:none"
        assert await code(*web, exit_code=2) == "config"
        said = await world.run("research", *web, code=2)
        assert "research.model" in said.stderr
        assert said.stdout == ""
        bubblewrap.env["RUMI_RESEARCH__MODEL"] = "offline"
        offline = await world.json("research", *web, *world.urls(2))
        assert "I am a demo" in offline["answer"]
        bubblewrap.env["RUMI_TASKS__MAX_TURNS"] = "2"
        cut = await world.json("research", "web", "for ever?", *world.urls(2), "--model", NAME, code=3)
        assert (cut["state"], cut["complete"]) == ("out_of_budget", False)
        for question in ("refused?", "nothing?"):
            failed = await world.json("research", "web", question, *world.urls(2), "--model", NAME, code=1)
            assert failed["state"] == "failed"
            assert failed["error"]["code"] == "model"
            told = await world.run("research", "web", question, "--model", NAME, code=1)
            assert told.stdout == ""
            assert "❌" in told.stderr
        assert nothing_runs(bubblewrap)


async def test_a_workspace_that_leads_elsewhere_is_an_error_of_its_own(
    bubblewrap: Program, tmp_path: Path
) -> None:
    (tmp_path / "repository").mkdir()
    git(tmp_path / "repository", "init", "--quiet", "--initial-branch=main", ".")
    git(tmp_path / "repository", "commit", "--quiet", "--allow-empty", "--message=Begin")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").write_text("mine")
    async with desk(bubblewrap, lambda body, web: Answer("So it is [1].")) as world:
        assert (await world.run("tasks")).stdout == ""
        (bubblewrap.home / "workspace" / "task.1").symlink_to(tmp_path / "elsewhere")
        asked = ("research", "repo", "-u", str(tmp_path / "repository"), "Why?")
        assert (await world.json(*asked, code=1))["error"]["code"] == "workspace"
        assert (tmp_path / "elsewhere" / "kept").read_text() == "mine"


def rows(program: Program, query: str) -> list[Any]:
    with closing(sqlite3.connect(f"file:{program.home}/state.db?mode=ro", uri=True)) as db:
        return db.execute(query).fetchall()


def nothing_runs(program: Program, bound_s: float = 20.0) -> bool:
    """Whether every process that this test's home has had is gone, soon."""
    deadline = time.monotonic() + bound_s
    while left := processes_of(program.home):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    return True


def processes_of(home: Path) -> list[tuple[int, str]]:
    """The processes of which a name, a folder or an open file says that they belong to the home."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        try:
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            links = [os.readlink(folder / "cwd"), *map(os.readlink, (folder / "fd").iterdir())]
        except OSError:
            continue
        if str(home) in words or any(link.startswith(str(home)) for link in links):
            found.append((int(folder.name), words))
    return found


@pytest.mark.long
async def test_a_repository_answers_with_lines_and_commits_that_exist(
    bubblewrap: Program, tmp_path: Path
) -> None:
    repository = imported(tmp_path / "served" / "big.git", history(5200))
    changed = git(repository, "rev-parse", "main~33")

    def think(body: Body, web: Island) -> Behaviour:
        if not answered_calls(body):
            asked: dict[str, dict[str, object]] = {
                "git_blame": {"path": "src/code.py", "start": 8, "end": 8},
                "git_diff": {"from": "v1", "to": "v2", "path": "docs/notes.md"},
                "read": {"path": "tree/src/code.py"},
            }
            return Answer(calls=[(name, json.dumps(arguments)) for name, arguments in asked.items()])
        read = str(body["messages"])
        assert f"8 {changed[:12]} 2018-02-14 Dev 1" in read
        assert "-At change 1000." in read
        return Answer(
            f"Dev 1 changed line 8 on 2018-02-14, see {changed[:10]} and src/code.py:8. "
            "Between v1 and v2 the notes changed, docs/notes.md:3. "
            "Nobody knows src/code.py:999 or abcdef0123."
        )

    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    bubblewrap.env["RUMI_SANDBOX__TOOLS"] = "work"
    bubblewrap.env["SSL_CERT_FILE"] = str(tmp_path / "authority.pem")
    answering = {f"/big.git/{path}": serves(tmp_path / "served") for path in ("info/refs", "git-upload-pack")}
    async with (
        serving(answering, certificate(authority, "127.0.0.1")) as server,
        desk(bubblewrap, think) as world,
    ):
        bubblewrap.env["RUMI_FETCH__ALLOW"] = json.dumps([server.endpoint])
        uri = f"https://{server.endpoint}/big.git"
        for _ in range(2):  # the second time with the clone that is kept
            report = await world.json("research", "repo", "-u", uri, "Who changed line 8 of src/code.py?")
            assert report["state"] == "succeeded"
            places = {place for claim in report["claims"] for place in claim["places"]}
            assert places == {changed[:10], "src/code.py:8", "docs/notes.md:3"}
            assert report["missing_places"] == ["src/code.py:999", "abcdef0123"]
            assert report["usage"]["calls"] == 2
        assert server.open == 0
