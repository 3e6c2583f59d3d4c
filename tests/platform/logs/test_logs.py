"""The program's own log: JSON lines, and no secret in messages, arguments or tracebacks."""

import json
import logging
import warnings
from pathlib import Path

import httpx
import pytest

from rumi.platform.logs.logs import program_log
from rumi.platform.redact import HIDDEN, Redactor

TOKEN = "123456789:AAH-abcdefghijklmnopqrstuvwxyz_0123"
log = logging.getLogger("rumi.tests")


def read(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_records_become_lines(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "rumi.jsonl"
    with program_log(path, max_mb=1, backup_count=1, redact=Redactor([])):
        log.info("%d things and %s", 2, "ñ\n")
        log.debug("not this")
        log.warning("odd", stack_info=True)
    first, second = read(path)
    assert first["message"] == "2 things and ñ\n"
    assert (first["level"], first["logger"]) == ("info", "rumi.tests")
    assert first["time"].endswith("Z")
    assert "test_logs" in second["stack"]
    assert path.stat().st_mode & 0o777 == 0o600
    log.info("after the block nothing is written")
    assert len(read(path)) == 2


def test_secrets_are_hidden_in_messages_arguments_and_tracebacks(tmp_path: Path) -> None:
    path = tmp_path / "rumi.jsonl"
    with program_log(path, max_mb=1, backup_count=1, redact=Redactor(["sesame-open"])):
        log.error("sesame-open %s %r", "sesame-open", {"k": "sesame-open"})
        try:
            try:
                raise ValueError(f"https://api.telegram.org/bot{TOKEN}/getMe")
            except ValueError as error:
                raise RuntimeError("sesame-open") from error
        except RuntimeError:
            log.exception("it failed")
    raw = path.read_text()
    assert "sesame" not in raw
    assert TOKEN not in raw
    message, failure = read(path)
    assert message["message"] == f"{HIDDEN} {HIDDEN} {{'k': '{HIDDEN}'}}"
    assert "RuntimeError" in failure["exception"]
    assert "direct cause" in failure["exception"]


async def test_what_httpx_logs_of_requests_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "rumi.jsonl"
    with program_log(path, max_mb=1, backup_count=1, redact=Redactor([]), level=logging.DEBUG):
        transport = httpx.MockTransport(lambda request: httpx.Response(200))
        async with httpx.AsyncClient(transport=transport) as client:
            await client.get(f"https://api.telegram.org/bot{TOKEN}/getMe")
        logging.getLogger("httpx").warning("https://api.telegram.org/bot%s/x", TOKEN)
    [line] = read(path)
    assert line["message"] == f"https://api.telegram.org/bot{HIDDEN}/x"


def test_a_wrong_call_is_told_and_raises_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rumi.jsonl"
    root = logging.getLogger()
    others = root.handlers[:]
    root.handlers.clear()  # pytest's own would raise
    try:
        with program_log(path, max_mb=1, backup_count=1, redact=Redactor([])):
            log.info("%d", "x")
    finally:
        root.handlers[:] = others
    assert "test_logs.py" in read(path)[0]["message"]
    assert capsys.readouterr() == ("", "")


def test_a_log_that_cannot_be_written_takes_nothing_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    with program_log(tmp_path / "file" / "rumi.jsonl", max_mb=1, backup_count=1, redact=Redactor([])):
        log.error("lost")
    assert capsys.readouterr() == ("", "")


def test_levels_are_as_before_when_it_ends(tmp_path: Path) -> None:
    before = [logging.getLogger(name).level for name in ("", "httpx", "httpcore")]
    with (
        warnings.catch_warnings(),
        program_log(tmp_path / "x", max_mb=1, backup_count=1, redact=Redactor([])),
    ):
        assert logging.getLogger("httpx").level == logging.WARNING
    assert [logging.getLogger(name).level for name in ("", "httpx", "httpcore")] == before
