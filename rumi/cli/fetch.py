"""`rumi debug fetch`."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from rumi.cli import run_async
from rumi.cli.printing import JSON, echo, echo_json, write_through
from rumi.cli.speaking import tr

if TYPE_CHECKING:
    from rumi.web.guard import Verdict

_CHUNK_BYTES = 65536


@click.command()
@click.argument("url", required=False)
@click.option("--check", is_flag=True, help="Only judge: URLs on standard input, one JSON line for each.")
@JSON
def command(url: str | None, check: bool, as_json: bool) -> None:
    """Get what the assistant would get from a URL."""

    if check == (url is not None):
        raise click.UsageError(tr("It takes a URL, or --check with URLs on standard input."))
    if url is None:
        run_async(_check)
        return
    text = run_async(_fetch, url)
    if as_json:
        echo_json({"url": url, "text": text}, indent=2)
    else:
        echo(text)


async def _fetch(url: str) -> str:
    """Return the text that the fetch tool gives to the model. It contains no terminal control characters.

    Raises:
        FetchError: The fetch failed. The message is one line, without the delimiters of untrusted text.
    """
    import trio

    from rumi.agent.tool import Progress
    from rumi.agent.tools.web_fetch import WebFetch
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.files import home_from
    from rumi.platform.untrusted_text import one_line
    from rumi.web.messages import FetchError, Method, Page
    from rumi.web.tree import fetch_once

    loaded = load_settings(home_from(os.environ), os.environ, {})
    failed: list[FetchError] = []

    async def fetch(url: str, method: Method, progress: Progress) -> Page:
        try:
            return await fetch_once(url, loaded.settings.fetch, loaded.secrets, method)
        except FetchError as error:
            failed.append(error)
            raise

    shown = ""

    async def show() -> None:
        nonlocal shown
        shown = (await WebFetch(fetch).call({"url": url})).content

    # A separate task does the work: Ctrl-C is raised in the main task, which then cancels the work.
    async with trio.open_nursery() as nursery:
        nursery.start_soon(show)
    if failed:
        raise FetchError("not fetched: {failed}", failed=one_line(str(failed[0])))
    return shown


async def _check() -> None:
    """Report for every URL on standard input whether it may be fetched, without connecting to its host."""
    import trio

    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.files import home_from
    from rumi.web.judging import judge_list

    settings = load_settings(home_from(os.environ), os.environ, {}).settings.fetch
    # Both ends may block forever: each has its own thread, which is abandoned on cancellation.
    reading, writing = trio.CapacityLimiter(1), trio.CapacityLimiter(1)

    async def read() -> bytes:
        return await trio.to_thread.run_sync(
            os.read, sys.stdin.fileno(), _CHUNK_BYTES, abandon_on_cancel=True, limiter=reading
        )

    async def report(verdicts: Sequence["Verdict"]) -> None:
        text = "".join(_line(verdict) for verdict in verdicts)
        await trio.to_thread.run_sync(write_through, text, abandon_on_cancel=True, limiter=writing)

    await judge_list(read, report, allow=settings.allow, timeout_s=settings.timeout_s)


def _line(verdict: "Verdict") -> str:
    """Return one JSON line in ASCII, so that text from the list never reaches a terminal unescaped."""
    return json.dumps(asdict(verdict), separators=(",", ":")) + "\n"
