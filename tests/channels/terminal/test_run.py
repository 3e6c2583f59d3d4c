"""The whole front end on real pipes: what goes where, and how it ends."""

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import trio

from rumi.agent.events import Thinking
from rumi.channels.terminal.options import TerminalOptions
from rumi.channels.terminal.run import run_terminal
from rumi.channels.terminal.streams import InputStream, StandardStreams
from rumi.errors import RumiError
from rumi.store.journal.records import Attachment
from tests.channels.terminal.scripted import STOPPED, ScriptedChat, answering, finish, tool, words


@dataclass
class Ended:
    code: int
    output: str
    errors: str


async def run_piped(
    chat: ScriptedChat, options: TerminalOptions, piped_text: str = "", *, keep_open: bool = False
) -> Ended:
    """Run with `given` on standard input; `keep_open` leaves its other end open."""
    stdin, typing = os.pipe()
    reading, stdout = os.pipe()
    reading_errors, stderr = os.pipe()
    ended = Ended(-1, "", "")
    try:
        os.write(typing, piped_text.encode())
        if not keep_open:
            os.close(typing)
        async with trio.open_nursery() as nursery:
            chat.nursery = nursery

            async def run() -> None:
                try:
                    ended.code = await run_terminal(chat, options, StandardStreams(stdin, stdout, stderr))
                finally:
                    os.close(stdout)
                    os.close(stderr)

            async def collect(name: str, fd: int) -> None:
                setattr(ended, name, await InputStream(fd).everything())

            nursery.start_soon(run)
            nursery.start_soon(collect, "output", reading)
            nursery.start_soon(collect, "errors", reading_errors)
    finally:
        for fd in (stdin, reading, reading_errors, *((typing,) if keep_open else ())):
            os.close(fd)
    return ended


async def test_lines_from_a_pipe_give_answers_to_a_pipe() -> None:
    chat = ScriptedChat(
        {"run echo hola": [Thinking(1), *tool("echo hola", "hola", took=0.01), finish("hola")]}
    )
    ended = await run_piped(chat, TerminalOptions(), "run echo hola\n/exit\n")
    assert ended == Ended(0, "hola\n", "$ echo hola\n  exit 0 · 10 ms\n")


async def test_a_stop_from_a_pipe_goes_out_at_once() -> None:
    chat = ScriptedChat({"go": [Thinking(1), 60.0]})
    with trio.fail_after(30):
        ended = await run_piped(chat, TerminalOptions(), "go\n/stop\n", keep_open=False)
    assert (ended.code, ended.output) == (0, f"{STOPPED}\n")


async def test_an_error_of_the_chat_arrives_as_it_was_raised() -> None:
    class Broken(ScriptedChat):
        async def send(self, text: str, attachments: Sequence[Attachment] = ()) -> int:
            raise RumiError("The disk is full.")

    async with trio.open_nursery() as nursery:
        chat = Broken()
        chat.nursery = nursery
        with pytest.raises(RumiError, match="The disk is full"):
            await run_terminal(chat, TerminalOptions(prompt="go"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_to_the_process_stops_the_turn(number: int) -> None:
    chat = ScriptedChat({"go": [Thinking(1), 60.0]})

    async def press() -> None:
        await chat.began.wait()
        os.kill(os.getpid(), number)

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(press)
            ended = await run_piped(chat, TerminalOptions(prompt="go"))
    assert (ended.code, ended.output) == (130, "")
    assert ended.errors.endswith(f"{STOPPED}\n")


@pytest.mark.parametrize("options", [TerminalOptions(), TerminalOptions(json=True)])
async def test_a_reader_that_goes_away_ends_it_quietly(options: TerminalOptions) -> None:
    chat = ScriptedChat({"go": [Thinking(1), *words("some words"), 60.0]}, commands={"/help": "commands"})
    stdin, typing = os.pipe()
    reading, stdout = os.pipe()
    os.close(reading)
    os.write(typing, b"/help\ngo\n")
    try:
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                chat.nursery = nursery
                assert await run_terminal(chat, options, StandardStreams(stdin, stdout, 2)) == 0
                nursery.cancel_scope.cancel()
    finally:
        for fd in (stdin, typing, stdout):
            os.close(fd)


async def test_an_input_that_stays_open_does_not_hold_the_exit_up() -> None:
    chat = ScriptedChat({"go": answering("ok")})
    with trio.fail_after(30):
        ended = await run_piped(chat, TerminalOptions(), "go\n/exit\n", keep_open=True)
    assert ended.code == 0
    with trio.fail_after(30):
        ended = await run_piped(
            ScriptedChat({"go": answering("ok")}), TerminalOptions(prompt="go"), keep_open=True
        )
    assert (ended.code, ended.output) == (0, "ok\n")


async def test_an_error_output_that_nobody_reads_matters_to_nobody() -> None:
    chat = ScriptedChat({"go": [Thinking(1), *tool("ls", "a", took=0.01), finish("ok")]})
    reading, stdout = os.pipe()
    nowhere, stderr = os.pipe()
    os.close(nowhere)
    try:
        async with trio.open_nursery() as nursery:
            chat.nursery = nursery
            assert (
                await run_terminal(chat, TerminalOptions(prompt="go"), StandardStreams(0, stdout, stderr))
                == 0
            )
        assert os.read(reading, 100) == b"ok\n"
    finally:
        for fd in (reading, stdout, stderr):
            os.close(fd)
