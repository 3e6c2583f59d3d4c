"""Reading and writing descriptors of every kind. Time is real: the kernel has no other."""

import os
import stat
from pathlib import Path

import pytest
import trio

from rumi.channels.terminal.streams import InputStream, OutputClosedError, OutputStream
from tests.channels.terminal.ptys import terminal


@pytest.fixture
def pipe():
    read, write = os.pipe()
    open_ends = {read, write}

    def close(fd: int) -> None:
        open_ends.discard(fd)
        os.close(fd)

    yield read, write, close
    for fd in open_ends:
        os.close(fd)


async def test_lines_of_a_pipe_come_as_they_are_written(pipe) -> None:
    read, write, close = pipe
    source = InputStream(read)
    os.write(write, "uno\r\ndós\n日".encode()[:-1])
    assert [await source.line(), await source.line()] == ["uno", "dós"]
    os.write(write, "日".encode()[-1:] + b"\n\nlast")
    assert [await source.line(), await source.line()] == ["日", ""]
    close(write)
    assert [await source.line(), await source.line(), await source.line()] == ["last", None, None]


async def test_bytes_that_are_no_text_are_replaced(pipe) -> None:
    read, write, close = pipe
    os.write(write, b"\xc3\xb1and\xc3\xba \xff b\xc3")
    close(write)
    assert await InputStream(read).everything() == "ñandú \ufffd b\ufffd"


@pytest.mark.parametrize("codec", ["cp1251", "koi8-r", "utf-16", "utf-8-sig"])
async def test_a_text_from_a_pipe_may_have_any_encoding(pipe, codec) -> None:
    read, write, close = pipe
    os.write(write, "Завтра утром придёт мастер.\n".encode(codec))
    close(write)
    assert await InputStream(read).everything() == "Завтра утром придёт мастер.\n"


async def test_a_cancelled_read_returns_at_once_and_loses_nothing(pipe) -> None:
    read, write, _ = pipe
    source = InputStream(read)
    os.write(write, b"half a ")
    with trio.move_on_after(0.05) as scope:
        await source.line()
    assert scope.cancelled_caught
    os.write(write, b"line\n")
    assert await source.line() == "half a line"


async def test_a_regular_file_and_the_null_device_are_read_to_their_ends(tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_text("one\ntwo")
    with file.open() as opened:
        source = InputStream(opened.fileno())
        assert [await source.line(), await source.line(), await source.line()] == ["one", "two", None]
    with open(os.devnull) as null:  # noqa: ASYNC230 - opening it cannot wait
        assert await InputStream(null.fileno()).everything() == ""


async def test_a_closed_input_is_an_empty_one(pipe) -> None:
    read, _, close = pipe
    close(read)
    assert await InputStream(read).line() is None


async def test_lines_of_a_terminal_come_as_they_are_typed() -> None:
    async with terminal() as window:
        await window.type("hola\n")
        assert await window.streams.input.line() == "hola"
        assert window.streams.input.terminal
        assert os.get_blocking(window.slave)


async def test_a_large_text_is_written_whole_while_its_reader_is_slow(pipe) -> None:
    read, write, close = pipe
    text = "línea larga\n" * 50_000
    received = bytearray()

    async def read_slowly() -> None:
        while data := os.read(read, 200_000):
            received.extend(data)
            await trio.sleep(0.001)

    async with trio.open_nursery() as nursery:

        async def write_it() -> None:
            await OutputStream(write).write(text)
            close(write)

        nursery.start_soon(write_it)
        await trio.sleep(0.05)
        nursery.start_soon(read_slowly)
    assert received.decode() == text


async def test_a_write_that_nobody_reads_can_be_cancelled_and_blocks_nobody(pipe) -> None:
    read, write, _ = pipe
    with trio.move_on_after(0.1) as scope:
        await OutputStream(write).write("x" * 1_000_000)
    assert scope.cancelled_caught
    left = 1_000_000
    while left:  # the thread that was left behind writes to this descriptor as long as something is left
        left -= len(os.read(read, left))


async def test_an_output_whose_reader_has_gone_says_so(pipe) -> None:
    read, write, close = pipe
    close(read)
    with pytest.raises(OutputClosedError):
        await OutputStream(write).write("text")


async def test_a_descriptor_that_someone_made_non_blocking_works_and_stays_as_it_was(pipe) -> None:
    read, write, close = pipe
    os.set_blocking(write, False)
    text = "x" * 300_000

    async with trio.open_nursery() as nursery:

        async def write_it() -> None:
            await OutputStream(write).write(text)
            close(write)

        nursery.start_soon(write_it)
        assert await InputStream(read).everything() == text
    assert stat.S_ISFIFO(os.fstat(read).st_mode)
    assert os.get_blocking(read)


async def test_the_size_of_what_is_no_terminal_is_80_by_24(pipe) -> None:
    assert OutputStream(pipe[1]).columns_and_rows() == (80, 24)
