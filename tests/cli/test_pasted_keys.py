"""API keys pasted into the chat: where they go, and that they are left nowhere else."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from tests.channels.terminal.ptys import Terminal, terminal
from tests.cli.program import RUMI, Program
from tests.cli.test_models import KEY
from tests.cli.test_models import server as model_server

WRONG = "gsk_wrongwrongwrongwrongwrongwrong0"
UNCLEAR = "sk-0123456789abcdef0123456789abcdef"
OTHER = "ghp_0123456789abcdefghijKLMN"

pytestmark = pytest.mark.bubblewrap


@asynccontextmanager
async def chatting(rumi: Program, *words: str, term: str = "xterm") -> AsyncIterator[Terminal]:
    """A person's chat, which has begun, and ends with the block."""
    environment = {**rumi.environment(), "TERM": term}
    async with terminal(100, 50) as window:
        end = window.slave
        process = await trio.lowlevel.open_process(
            [RUMI, *words],
            env=environment,
            stdin=end,
            stdout=end,
            stderr=end,
            cwd=rumi.home.parent,  # no project, in which the chat would ask first
            start_new_session=True,
        )
        await window.see("›")
        yield window
        await window.type("\x04")
        assert await process.wait() == 0


def with_secret(home: Path, secret: str) -> set[str]:
    """The files of a home, as paths in it, that contain a secret."""
    paths = [path for path in home.rglob("*") if path.is_file() and not path.is_symlink()]
    return {str(path.relative_to(home)) for path in paths if secret.encode() in path.read_bytes()}


@pytest.mark.long
async def test_a_pasted_key_is_stored_in_env_alone_and_answers_at_once(bubblewrap: Program) -> None:
    with model_server("ok") as address:
        bubblewrap.env["GROQ_BASE_URL"] = address
        async with chatting(bubblewrap) as window:
            await window.type(f"{WRONG}\r")
            await window.see("The key was not stored")
            assert with_secret(bubblewrap.home, WRONG) == set()
            await window.type(f"export GROQ_API_KEY={KEY}\r")
            await window.see("The key is stored in")
            await window.see("The chat goes on · model groq:openai/gpt-oss-120b")
            await window.type("hello\r")
            await window.see("tokens")  # a real model counts them
            assert not any(secret in line for secret in (KEY, WRONG) for line in window.everything)
    assert with_secret(bubblewrap.home, WRONG) == set()
    assert with_secret(bubblewrap.home, KEY) == {".env"}
    assert (bubblewrap.home / ".env").stat().st_mode & 0o777 == 0o600
    assert (bubblewrap.home / "terminal_history").read_text().count("+") == 1  # hello


@pytest.mark.long
async def test_an_unclear_key_is_asked_for_and_another_secret_refused(bubblewrap: Program) -> None:
    async with chatting(bubblewrap) as window:
        await window.type(f"{UNCLEAR}\r")
        await window.see("1 OpenAI · 2 DeepSeek · 3 none of them: discard it")
        await window.type("3\r")
        await window.see("I have forgotten the key")
        await window.type(f"{OTHER}\r")
        await window.see("neither sent nor stored")
    for secret in (UNCLEAR, OTHER):
        assert with_secret(bubblewrap.home, secret) == set()


@pytest.mark.long
async def test_a_terminal_without_a_movable_cursor_takes_a_key_too(bubblewrap: Program) -> None:
    with model_server("ok") as address:
        bubblewrap.env["GROQ_BASE_URL"] = address
        async with chatting(bubblewrap, term="dumb") as window:
            await window.type(f"{KEY}\r")
            await window.see("The chat goes on · model groq:openai/gpt-oss-120b")
    assert with_secret(bubblewrap.home, KEY) == {".env"}


@pytest.mark.parametrize("words", [("-p", OTHER), ("-p", f"GROQ_API_KEY={KEY}")])
def test_a_message_that_is_only_a_secret_is_refused_and_not_stored(
    bubblewrap: Program, words: tuple[str, ...]
) -> None:
    bubblewrap.env["RUMI_MODEL__DEFAULT"] = "offline"
    said = bubblewrap.run("chat", *words, code=1).stdout
    assert "revoke the key" in said
    assert with_secret(bubblewrap.home, words[1].rpartition("=")[2]) == set()
    assert os.path.exists(bubblewrap.home / "state.db")
