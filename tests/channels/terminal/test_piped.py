"""What is piped beside a text: real pipes, files and devices; the time in which nothing comes is virtual."""

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rumi.channels.terminal.options import FileLimits, TerminalOptions
from rumi.channels.terminal.piped import PAUSE_S, SILENT_S, _piped, what_to_send
from rumi.channels.terminal.run import run_terminal
from rumi.channels.terminal.streams import InputStream, StandardStreams
from rumi.channels.terminal.words import Reader
from rumi.errors import UsageError
from rumi.store.journal.records import Attachment
from tests.channels.terminal.ptys import terminal
from tests.channels.terminal.scripted import ScriptedChat, answering

READER = Reader("en")


class Pipe:
    """A pipe, and what is said about it."""

    def __init__(self) -> None:
        self.read, self.write = os.pipe()
        self.reported: list[str] = []

    def says(self, data: bytes, *, ends: bool = True) -> "Pipe":
        os.write(self.write, data)
        return self.ends() if ends else self

    def ends(self) -> "Pipe":
        os.close(self.write)
        self.write = -1
        return self

    async def report(self, line: str) -> None:
        await trio.lowlevel.checkpoint()
        self.reported.append(line)

    async def handed_on(self, max_chars: int = 1000) -> tuple[Attachment, ...]:
        return await _piped(InputStream(self.read), max_chars, READER, self.report)


def words(text: str, *, cut: bool = False) -> tuple[Attachment, ...]:
    return (Attachment("words", source="standard input", text=text, cut=cut),)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    for fd in {pipe.read, pipe.write} - {-1}:
        os.close(fd)


async def test_what_a_pipe_says_is_handed_on_as_somebody_elses(pipe: Pipe) -> None:
    assert await pipe.says("uno\ndós\n".encode()).handed_on() == words("uno\ndós\n")
    assert pipe.reported == []


@pytest.mark.parametrize("data", [b"", b"\n", b" \n\t"])
async def test_a_pipe_that_says_nothing_is_nothing(pipe: Pipe, data: bytes) -> None:
    assert await pipe.says(data).handed_on() == ()
    assert pipe.reported == []


async def test_bytes_that_are_no_text_are_replaced(pipe: Pipe) -> None:
    assert await pipe.says(b"\xc3\xb1and\xc3\xba \xff b\xc3").handed_on() == words("ñandú \ufffd b\ufffd")


@pytest.mark.parametrize("codec", ["cp1251", "koi8-r", "utf-16", "utf-16-le", "utf-8-sig"])
async def test_piped_text_may_have_any_encoding(pipe: Pipe, codec: str) -> None:
    text = "Имя;Цена\nСтол;1200\nСтул;300\n"
    assert await pipe.says(text.encode(codec)).handed_on() == words(text)
    assert pipe.reported == []


@pytest.mark.parametrize("codec", ["utf-8", "utf-16", "cp1251"])
async def test_characters_of_a_pipe_are_counted_and_not_bytes(pipe: Pipe, codec: str) -> None:
    text = "Завтра утром придёт мастер. " * 9
    assert await pipe.says(text.encode(codec)).handed_on(len(text)) == words(text)
    assert pipe.reported == []


async def test_a_silent_pipe_is_left_with_a_warning(autojump_clock: MockClock, pipe: Pipe) -> None:
    assert await pipe.handed_on() == ()
    assert trio.current_time() == pytest.approx(SILENT_S)
    assert pipe.reported == ["Nothing came on standard input for 3 s: the turn runs without it."]


async def test_a_pipe_that_pauses_for_long_is_left_with_what_had_come(
    autojump_clock: MockClock, pipe: Pipe
) -> None:
    assert await pipe.says(b"half", ends=False).handed_on() == words("half", cut=True)
    assert trio.current_time() == pytest.approx(PAUSE_S)
    assert pipe.reported == ["Standard input paused for 10 s: the turn runs with what had come by then."]


async def test_a_slow_pipe_is_read_to_its_end(pipe: Pipe) -> None:
    async def write() -> None:
        for piece in (b"uno ", b"d\xc3", b"\xb3s ", b"tres"):
            pipe.says(piece, ends=False)
            await trio.sleep(0.02)
        pipe.ends()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        assert await pipe.handed_on() == words("uno dós tres")


async def test_of_a_pipe_without_end_only_the_beginning_is_read(pipe: Pipe) -> None:
    written = 0

    async def yes() -> None:
        nonlocal written
        while True:
            await trio.lowlevel.wait_writable(pipe.write)
            written += os.write(pipe.write, b"y" * 4096)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(yes)
        with trio.fail_after(10):
            assert await pipe.handed_on(100_000) == words("y" * 100_000, cut=True)
        nursery.cancel_scope.cancel()
    assert written < 400_000
    assert pipe.reported == [
        "Only the first 100000 characters of standard input are used ([session] handed_chars)."
    ]


async def test_what_just_fits_is_not_cut(pipe: Pipe) -> None:
    assert await pipe.says("ñ".encode() * 10).handed_on(10) == words("ñ" * 10)
    assert pipe.reported == []


async def test_files_and_sockets_are_read_and_devices_are_not(tmp_path: Path, pipe: Pipe) -> None:
    (tmp_path / "a.txt").write_text("uno")
    ours, theirs = socket.socketpair()
    ours.sendall(b"dos")
    ours.close()
    given = {
        "file": os.open(tmp_path / "a.txt", os.O_RDONLY),
        "socket": theirs.detach(),
        "folder": os.open(tmp_path, os.O_RDONLY),
        "null": os.open(os.devnull, os.O_RDONLY),
        "zero": os.open("/dev/zero", os.O_RDONLY),
        "closed": 10_000,
    }
    found = {name: await _piped(InputStream(fd), 10, READER, pipe.report) for name, fd in given.items()}
    for fd in given.values():
        with suppress(OSError):
            os.close(fd)
    assert {name: text for name, text in found.items() if text} == {
        "file": words("uno"),
        "socket": words("dos"),
    }
    assert pipe.reported == []


async def test_a_terminal_is_not_read() -> None:
    async with terminal() as window:
        await window.type("hola\n")
        assert await _piped(window.streams.input, 10, READER, window.streams.errors.write) == ()
        assert await window.streams.input.line() == "hola"


# With a turn


async def to_send(pipe: Pipe, prompt: str, max_chars: int = 1000) -> tuple[str, tuple[Attachment, ...]]:
    return await what_to_send(prompt, StandardStreams(pipe.read, 1, 2), "en", FileLimits(max_chars))


async def test_it_is_handed_on_beside_the_text_so_much_of_it_as_is_configured(pipe: Pipe) -> None:
    assert await to_send(pipe.says(b"DATA\n"), " sum it up\n", 3) == ("sum it up", words("DAT", cut=True))


@pytest.mark.parametrize("json", [False, True])
async def test_it_is_sent_with_the_text(json: bool) -> None:
    chat = ScriptedChat({"sum it up": answering("ok")})
    options = TerminalOptions(prompt="sum it up", json=json, attachments=words("DATA\n"))
    with open(os.devnull, "w") as null:  # noqa: ASYNC230  # opening it cannot wait
        async with trio.open_nursery() as nursery:
            chat.nursery = nursery
            assert await run_terminal(chat, options, StandardStreams(0, null.fileno(), null.fileno())) == 0
            nursery.cancel_scope.cancel()
    assert (chat.texts, tuple(chat.handed_on)) == (["sum it up"], words("DATA\n"))


async def test_a_command_takes_no_data_and_waits_for_none(pipe: Pipe) -> None:
    with trio.fail_after(30):
        assert await to_send(pipe.says(b"DATA\n", ends=False), "/status") == ("/status", ())


async def test_text_that_comes_from_standard_input_is_the_users_own(pipe: Pipe) -> None:
    assert await to_send(pipe.says(b"two\nlines\n"), "-") == ("two\nlines", ())


@pytest.mark.parametrize("prompt", ["", "  \n", "-"])
async def test_nothing_to_send_is_wrong_usage(pipe: Pipe, prompt: str) -> None:
    with pytest.raises(UsageError, match="nothing to send"):
        await to_send(pipe.ends(), prompt)
