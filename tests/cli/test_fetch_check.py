"""`rumi fetch --check`: URLs in, one judgement each out, and nothing else happens."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

import pytest

from tests.cli.program import BOUND_S, RUMI, Program


@pytest.fixture
def rumi(tmp_path: Path) -> Program:
    return Program(tmp_path / "home")


def judged(rumi: Program, text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in rumi.run("fetch", "--check", text=text).stdout.splitlines()]


def test_every_way_to_write_an_inner_address_is_refused_with_its_reason(rumi: Program) -> None:
    expected = {
        "http://127.0.0.1/": ("127.0.0.1", "loopback"),
        "http://2130706433/": ("127.0.0.1", "loopback"),
        "http://0177.1/": ("127.0.0.1", "loopback"),
        "http://[::ffff:169.254.169.254]/": ("[::ffff:a9fe:a9fe]", "IPv4 inside"),
        "http://[64:ff9b::7f00:1]/": ("[64:ff9b::7f00:1]", "NAT64"),
        "http://①②⑦.0.0.1/": ("127.0.0.1", "loopback"),
        "http://example.com\\@127.0.0.1/": ("example.com", "backslash"),
        "http://169.254.169.254/latest/meta-data/": ("169.254.169.254", "cloud metadata"),
        "http://localhost/": ("localhost", "loopback"),
        "http://user:pass@8.8.8.8/": ("8.8.8.8", "user info"),
        "http://8.8.8.8:22/": ("8.8.8.8", "Port 22"),
        "ftp://8.8.8.8/": ("8.8.8.8", "Only http and https"),
        "example.com": ("", "not a valid URL"),
    }
    verdicts = judged(rumi, "".join(f"{url}\n" for url in expected))
    assert [verdict["url"] for verdict in verdicts] == list(expected)
    for verdict in verdicts:
        host, reason = expected[verdict["url"]]
        assert verdict["allowed"] is False
        assert verdict["host"] == host
        assert reason in verdict["reason"]


def test_a_judgement_has_these_fields_in_this_order(rumi: Program) -> None:
    line = rumi.run("fetch", "--check", text="https://1.1.1.1/").stdout
    assert line == (
        '{"url":"https://1.1.1.1/","allowed":true,"reason":"","host":"1.1.1.1","addresses":["1.1.1.1"]}\n'
    )


def test_blank_lines_are_skipped_and_odd_ends_of_lines_are_ends(rumi: Program) -> None:
    verdicts = judged(rumi, "\n  \n\t\r\nhttp://1.1.1.1/\r\n\n http://8.8.8.8/ \nhttp://9.9.9.9/")
    assert [(verdict["url"], verdict["allowed"]) for verdict in verdicts] == [
        ("http://1.1.1.1/", True), (" http://8.8.8.8/ ", True), ("http://9.9.9.9/", True),
    ]  # fmt: skip
    assert judged(rumi, "") == []


def test_what_is_no_text_is_a_judgement_like_others_and_never_reaches_a_terminal(rumi: Program) -> None:
    done = subprocess.run(
        [RUMI, "fetch", "--check"],
        input=b"http://\xff/\n\0\nhttp://1.1.1.1/\xc2\x9b\n\xed\xa0\x80\nhttp://1.1.1.1/\n",
        capture_output=True,
        env=rumi.environment(),
        timeout=BOUND_S,
        check=True,
    )
    assert done.stdout.isascii()
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    assert [verdict["allowed"] for verdict in verdicts] == [False, False, False, False, True]
    assert verdicts[0]["reason"] == verdicts[3]["reason"] == "The line is not UTF-8."


def test_the_exceptions_are_those_of_the_configuration(rumi: Program) -> None:
    rumi.home.mkdir()
    (rumi.home / "config.toml").write_text('[fetch]\nallow = ["127.0.0.1:8000", "[::1]:8000"]\n')
    verdicts = judged(
        rumi, "http://127.1:8000/\nhttp://[::1]:8000/\nhttp://127.0.0.1/\nhttp://127.0.0.2:8000/\n"
    )
    assert [verdict["allowed"] for verdict in verdicts] == [True, True, False, False]


def test_nothing_is_left_behind_by_judging(rumi: Program) -> None:
    judged(rumi, "http://127.0.0.1/")
    assert list(rumi.home.iterdir()) == []


def test_judgements_come_in_order_and_while_more_lines_are_awaited(rumi: Program) -> None:
    with rumi.start("fetch", "--check") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for last in range(1, 5):
            process.stdin.write(f"http://1.1.1.{last}/\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["host"] == f"1.1.1.{last}"
        process.stdin.close()
        assert process.wait(BOUND_S) == 0


def test_many_lines_come_out_in_the_order_in_which_they_went_in(rumi: Program) -> None:
    urls = [f"http://{'1.1.1.1' if n % 7 else 'localhost'}/{n}" for n in range(10_000)]
    verdicts = judged(rumi, "\n".join(urls))
    assert [verdict["url"] for verdict in verdicts] == urls
    assert [verdict["allowed"] for verdict in verdicts] == [n % 7 != 0 for n in range(10_000)]


@pytest.mark.long
def test_endless_input_is_judged_in_bounded_memory_until_nobody_reads(rumi: Program) -> None:
    """64 MB of one line and as many short ones as can be read; then the reader goes away."""
    with rumi.start("fetch", "--check") as process, ThreadPoolExecutor(1) as pool:
        assert process.stdin is not None
        assert process.stdout is not None
        feeding = pool.submit(feed_until_nobody_reads, process.stdin)
        assert "too long" in json.loads(process.stdout.readline())["reason"]
        for _ in range(20_000):
            assert json.loads(process.stdout.readline())["allowed"] is True
        status = Path(f"/proc/{process.pid}/status").read_text()
        process.stdout.close()
        assert process.wait(BOUND_S) == 1
        assert feeding.result(BOUND_S)
        assert process.stderr is not None
        assert process.stderr.read() == ""
    peak_kb = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
    assert peak_kb < 200_000


def feed_until_nobody_reads(stream: IO[str]) -> bool:
    try:
        for _ in range(1024):
            stream.write("a" * 65536)
        while True:
            stream.write("\nhttp://1.1.1.1/" * 1000)
    except BrokenPipeError:
        return True


def test_it_takes_either_a_url_or_a_list(rumi: Program) -> None:
    assert "a URL, or --check" in rumi.run("fetch", code=2).stderr
    assert "a URL, or --check" in rumi.run("fetch", "--check", "http://1.1.1.1/", code=2).stderr
