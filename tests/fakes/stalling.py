"""Pages that never come, repositories that stop in the middle, and a model that sends delegates there."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio
import trustme

from tests.fakes.git_server import git, serves
from tests.fakes.groq_replies import Answer, Behaviour, Body, Hang, answered_calls, last_user_text
from tests.fakes.web_server import Asked, WebServer, certificate, serving, silence, until_gone

LEAVES = 3
CLONES = 2
LARGE_BYTES = 2_000_000
SENT_BYTES = 400_000
"""So much of a clone comes, and then nothing."""


class _Stops(trio.abc.SendStream):
    """Sends so many bytes, and then waits until the client has gone."""

    def __init__(self, stream: trio.abc.Stream, stalls: "Stalling") -> None:
        self._stream = stream
        self._stalls = stalls
        self._bytes_left = SENT_BYTES

    async def send_all(self, data: Any) -> None:
        await self._stream.send_all(data[: self._bytes_left])
        self._bytes_left -= len(data)
        if self._bytes_left <= 0:
            self._stalls.half += 1
            try:
                await until_gone(self._stream)
            finally:
                self._stalls.half -= 1

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._stream.receive_some(max_bytes)


@dataclass
class Stalling:
    """`half` counts the clones that have stopped in the middle. `trusted` is the file of the authority."""

    pages: WebServer
    repositories: WebServer
    trusted: Path
    half: int = 0

    @property
    def in_flight(self) -> bool:
        """Whether every delegate and researcher waits for what never comes."""
        return (self.pages.open, self.half) == (LEAVES, CLONES)

    @property
    def idle(self) -> bool:
        """Whether no connection is left."""
        return (self.pages.open, self.repositories.open, self.half) == (0, 0, 0)

    def think(self, body: Body) -> Behaviour:
        """`three` waits for a researcher with three delegates, and for two researchers that clone."""
        said = last_user_text(body)
        done = len(answered_calls(body))
        if said == "three":
            leaves = [self.pages.url(f"/{n}") for n in range(LEAVES)]
            split = [("research", {"question": " ".join(("split", *leaves))})]
            split += [
                ("research_repo", {"question": f"look {n}", "uri": self.repositories.url(f"/{n}.git")})
                for n in range(CLONES)
            ]
            return Answer(calls=[(name, json.dumps(arguments)) for name, arguments in split])
        if said.startswith("split "):
            goals = [{"goal": f"leaf {url}", "tools": "reading"} for url in said.split()[1:]]
            return Answer(calls=[("delegate", json.dumps(goal)) for goal in goals])
        if said.startswith("leaf "):
            if not done:  # with a sandbox
                return Answer(calls=[("grep", json.dumps({"pattern": "x", "path": "."}))])
            return Answer(calls=[("web_fetch", json.dumps({"url": said.removeprefix("leaf ")}))])
        if said == "command" and not done:
            return Answer(calls=[("bash", json.dumps({"command": "sleep 600"}))])
        return Hang() if said == "hang" else Answer("hello")


@asynccontextmanager
async def stalling(folder: Path) -> AsyncIterator[Stalling]:
    """Serve the pages and, over TLS, the repositories, which are made in the folder."""
    for number in range(CLONES):
        made = folder / f"{number}.git"
        made.mkdir(parents=True)
        git(made, "init", "--quiet", "--initial-branch=main", ".")
        (made / "large").write_bytes(os.urandom(LARGE_BYTES))
        git(made, "add", "large")
        git(made, "commit", "--quiet", "--message=Begin")
    ca = trustme.CA()
    ca.cert_pem.write_to_path(folder / "ca.pem")
    whole = serves(folder)
    async with (
        serving({f"/{number}": silence for number in range(LEAVES)}) as pages,
        serving(tls=certificate(ca, "127.0.0.1")) as repositories,
    ):
        world = Stalling(pages, repositories, folder / "ca.pem")

        async def half(stream: trio.abc.Stream, asked: Asked) -> None:
            await whole(_Stops(stream, world), asked)  # type: ignore[arg-type]

        for number in range(CLONES):
            for path in ("", "/info/refs", "/git-upload-pack"):
                repositories.paths[f"/{number}.git{path}"] = half
        yield world
