"""Searching without a key: the library ddgs, in a process of its own.

ddgs is synchronous, with sockets that only it knows; a thread with it in cannot be ended, a process can.
"""

import contextlib
import json
import math
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Final

import trio

from rumi.web.search.provider import MAX_ANSWER_BYTES, Fields, Query, found, malformed
from rumi.web.types import FetchError, Found

_PROGRAM: Final = Path(__file__).with_name("ddgs_process.py")
_AT_ONCE: Final = 4
"""So many processes with ddgs in may run; each takes some 40 MB and a fifth of a second of computing."""

_FIELDS: Final = {
    "general": Fields(title="title", url="href", snippet="body"),
    "news": Fields(title="title", url="url", snippet="body", date="date"),
}
_PASSED_ON: Final = ("LD_LIBRARY_PATH",)
_PROXIES: Final = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
_SENTENCES: Final = {
    "unreachable": "ddgs could reach no search engine.",
    "timeout": "ddgs got no answer from a search engine in time.",
    "refused": "The search engines turned ddgs away.",
    "failed": "ddgs got nothing usable from the search engines.",
}


class Duck:
    """Searches with ddgs; see `Provider`. `timeout_s` includes the wait for one of few processes.

    `proxy` and `ca_file` stand for `HTTPS_PROXY` (or `ALL_PROXY`) and `SSL_CERT_FILE` of the environment.
    """

    name = "ddgs"

    def __init__(self, *, timeout_s: float, proxy: str | None = None, ca_file: str | None = None) -> None:
        self._timeout_s = timeout_s
        self._proxy = proxy
        self._ca_file = ca_file
        self._room = trio.CapacityLimiter(_AT_ONCE)

    async def search(self, query: Query) -> tuple[Found, ...]:
        """What ddgs found. Cancelled, or out of time, its process has ended before this returns.

        Of an engine that answers, but with a riddle for humans, ddgs only sees that nothing was found.
        """
        answer = None
        with trio.move_on_after(self._timeout_s) as waiting:
            async with self._room:
                answer = await self._run(self._request(query))
        if waiting.cancelled_caught or answer is None:
            raise FetchError(f"ddgs did not answer in {self._timeout_s:g} s.")
        try:
            told = json.loads(answer)
        except (ValueError, RecursionError):
            told = None
        if not isinstance(told, dict):
            raise FetchError("ddgs ended without an answer.", answered=True)
        if isinstance(failure := told.get("failed"), str):
            if failure not in _SENTENCES:
                raise malformed("ddgs")
            raise FetchError(_SENTENCES[failure], answered=failure != "unreachable")
        return found("ddgs", told.get("results"), _FIELDS[query.topic], query.max_results)

    def _request(self, query: Query) -> bytes:
        environment = os.environ
        request = {
            "query": query.text,
            "topic": query.topic,
            "max_results": query.max_results,
            # ddgs asks engines one after another: with all the time, the first could take it all.
            "engine_timeout_s": max(1, int(self._timeout_s / 2)),
            "ends_after_s": math.ceil(self._timeout_s) + 1,
            "proxy": self._proxy
            or next((environment[name] for name in _PROXIES if environment.get(name)), None),
            "ca_file": self._ca_file or environment.get("SSL_CERT_FILE") or None,
        }
        return json.dumps(request).encode() + b"\n"

    async def _run(self, request: bytes) -> bytes:
        """What the process writes, up to the bound. It ends when this does, however that is.

        Its standard input stays open meanwhile: where this process is killed, it closes, and ends that one.
        """
        failure: OSError | None = None
        answer = b""
        async with trio.open_nursery() as nursery:
            start = partial(
                trio.run_process,
                # -I: nothing of the working folder or of the environment becomes code there.
                [sys.executable, "-I", str(_PROGRAM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
                check=False,
                deliver_cancel=_kill,
            )
            try:
                process: trio.Process = await nursery.start(start)
            except OSError as error:
                failure = error
            else:
                answer = await _exchange(process, request)
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise FetchError(f"ddgs could not be started: {failure.strerror}.")
        return answer


async def _exchange(process: trio.Process, request: bytes) -> bytes:
    """What it says to the request; empty if it breaks off before it is asked, or says too much."""
    assert process.stdin is not None
    assert process.stdout is not None
    answer = bytearray()
    async with process.stdin, process.stdout:
        with contextlib.suppress(trio.BrokenResourceError):
            await process.stdin.send_all(request)
            while len(answer) <= MAX_ANSWER_BYTES and (data := await process.stdout.receive_some()):
                answer += data
    return bytes(answer) if len(answer) <= MAX_ANSWER_BYTES else b""


async def _kill(process: trio.Process) -> None:
    process.kill()
