"""One table of secret forms: they are hidden in every place where text leaves, and refused by the memory."""

import base64
import json
import logging
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from rumi.chats.recorder.report import pack
from rumi.cli.doctor.check import Check, Examination
from rumi.cli.group import _show
from rumi.memory.messages import NewFact
from rumi.memory.secrets import looks_secret
from rumi.models.failures import scrub
from rumi.models.hiding import Hiding
from rumi.models.model import ModelEvent, Reply, TextDelta, ToolCall
from rumi.platform import redact
from rumi.platform.logs.audit import AuditLog
from rumi.platform.logs.logs import program_log
from rumi.platform.redact import HIDDEN, Redactor
from rumi.platform.secret_forms import TABLE, SecretTable
from rumi.platform.texts.translation import error_text

BODY = "q9XzK0aa" * 8
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n{BODY}\nQm9iQm9i\n-----END RSA PRIVATE KEY-----"

FORMS = {
    "groq": "gsk_abcdefgh12345678",
    "openai": "sk-proj-abcdefghijklmnopqrstu",
    "github": "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "github oauth": "gho_16C7e42F292c6912E7710c838347Ae178B4a",
    "github fine": "github_pat_11ABCDEFG0abcdefghij_klmnopqrstuvwxyz",
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "aws session": "ASIAIOSFODNN7EXAMPLE",
    "slack": "xoxb-123456789012-abcdefghijkl",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
    "gitlab": "glpat-abcdefghij0123456789",
    "sendgrid": "SG.ngeVfQFYQlKU0ufo8x5d1A.TwL2iGABf9DHoTf09kqeF8tAmbihYzrnopKc1s5cr",
    "npm": "npm_abcdefghijklmnopqrstuvwxyz0123456789",
    "hugging face": "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "synapse": "syt_cnVtaQ_RcdefGHIjklMNOpqrst_1aB2cD",
    "pypi": "pypi-AgEIcHlwaS5vcmcCJDU3YjQ",
    "google": "AIzaSyA-abcdefghijklmnopqrstuvwxyz01234",
    "stripe": "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
    "stripe restricted": "rk_live_4eC39HqLyjWDarjtT1zdp7dc",
    "telegram": "123456789:AAH-abcdefghijklmnopqrstuvwxyz_0123",
    "pem": PEM,
    "pem escaped": PEM.replace("\n", "\\n"),
    "pem in json": json.dumps(json.dumps({"key": PEM})),
    "pem cut at its end": PEM[:120],
    "pem cut at its beginning": PEM[60:],
    "pem with line numbers": "\n".join(f"{n:6}\t{line}" for n, line in enumerate(PEM.split("\n"), 1)),
    "password": "password: hunter2",
    "password of words": "password: 'correct horse battery'",
    "password in json": '{"password": "sunflower"}',
    "password in the environment": "DB_PASSWORD=ab&cd,ef;gh",
    "password told": "the wifi password is Sunflower7!",
    "password as an option": "mysql --password hunter2",
    "api key": "api_key=abcdef123456",
    "bearer": "Authorization: Bearer abcdefgh12",
    "basic": "Authorization: Basic dXNlcjpwYXNz",
    "url": "https://ana:s3sam,@e@host/x",
    "curl": "curl -u ana:hunter2 https://host",
    "card": "4111 1111 1111 1111",
}
PARTS = {
    **{name: text for name, text in FORMS.items() if not name.startswith(("pem", "password"))},
    **{name: BODY[:20] for name in FORMS if name.startswith("pem")},
    "password": "hunter2",
    "password of words": "battery",
    "password in json": "sunflower",
    "password in the environment": "cd,ef",
    "password told": "Sunflower7",
    "password as an option": "hunter2",
    "api key": "abcdef123456",
    "bearer": "abcdefgh12",
    "basic": "dXNlcjpwYXNz",
    "url": "s3sam",
    "curl": "hunter2",
}
"""What must not be left of each form."""


def log(text: str, folder: Path, hide: Redactor) -> str:
    with program_log(folder / "rumi.jsonl", max_mb=1, backup_count=1, redact=hide):
        logging.getLogger("test").warning("a server said %s", text)
        try:
            raise ValueError(text)
        except ValueError:
            logging.getLogger("test").exception("it failed")
    return (folder / "rumi.jsonl").read_text()


def audit(text: str, folder: Path, hide: Redactor) -> str:
    writer = AuditLog(folder / "audit.jsonl", 1, 1, hide)
    writer.write("command", chat_id="c", argv=["echo", text], command=text, more={text: [text]})
    writer.close()
    return (folder / "audit.jsonl").read_text()


def recording(text: str, folder: Path, hide: Redactor) -> str:
    arguments = json.dumps({"command": text})
    return json.dumps(hide.json({"content": f"it says {text}", "calls": [{"arguments": arguments}], text: 1}))


def report(text: str, folder: Path, hide: Redactor) -> str:
    """Pack a recording that an earlier version made, with everything in it."""
    old = folder / "t1.jsonl"
    old.write_text(json.dumps({"kind": "turn", "content": text}) + "\n" + '{"torn')
    pack(old, folder / "t1.zip", hide)
    with zipfile.ZipFile(folder / "t1.zip") as packed:
        return packed.read("recording.jsonl").decode()


def model_error(text: str, folder: Path, hide: Redactor) -> str:
    return scrub(f"wrong: {text}", hide)


def doctor(text: str, folder: Path, hide: Redactor) -> str:
    told: list[Check] = []
    Examination("en", told.append, redact=hide).add(Check("x", "failure", text, f"look at {text}"))
    return str(told)


def fault(text: str, folder: Path, hide: Redactor) -> str:
    return error_text("en", ValueError(text))


SINKS: dict[str, Callable[[str, Path, Redactor], str]] = {
    writer.__name__: writer for writer in (log, audit, recording, report, model_error, doctor, fault)
}


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_hidden_in_each_place(form: str, sink: str, tmp_path: Path) -> None:
    said = SINKS[sink](FORMS[form], tmp_path, Redactor(()))
    assert HIDDEN in said
    assert PARTS[form] not in said


@pytest.mark.parametrize("form", FORMS)
def test_the_memory_refuses_each_form(form: str) -> None:
    assert looks_secret(NewFact("note", FORMS[form]))


@pytest.mark.parametrize("form", FORMS)
def test_a_traceback_on_standard_error_shows_no_form(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    _show(f"ValueError: {FORMS[form]}")
    assert PARTS[form] not in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "commit 0f94416b3c2d1e0f9a8b7c6d5e4f30211234abcd",
        "12345:da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "550e8400-e29b-41d4-a716-446655440000",
        "sha256:" + "ab12" * 16,
        "prompt_tokens: 1234, max_tokens=512",
        "password manager: 1Password",
        "PWD=/home/x OLDPWD=/",
        "Basic understanding of physics",
        "npm_config_registry=https://x",
        "pypi-publish-workflow-for-projects",
        "The password must have 8 characters.",
        "passwords: change them",
        "if password == other:",
        "pin the version: 4.2.1",
        "1795700500839 5493411551234",
        "https://x.y/z?page=2&q=token",
        "key = value; token = next(tokens)",
    ],
)
def test_ordinary_words_hashes_and_numbers_stay(text: str) -> None:
    assert Redactor(()).text(text) == text


def test_the_memory_keeps_ordinary_words_hashes_and_numbers() -> None:
    for text in (
        "commit 0f94416b3c2d1e0f9a8b",
        "550e8400-e29b-41d4-a716-446655440000",
        "Basic understanding",
    ):
        assert not looks_secret(NewFact("note", text))


KEY = "k3y/of+this~installation?1"


def encodings() -> Iterator[str]:
    yield KEY
    yield quote(KEY, safe="")
    yield json.dumps({"a": KEY})
    yield KEY.encode().hex()
    for user in ("", "u", "us"):
        yield base64.b64encode(f"{user}:{KEY}".encode()).decode()
        yield quote(base64.b64encode(f"{user}:{KEY} and more".encode()).decode(), safe="")
        yield base64.urlsafe_b64encode(f"{user}:{KEY}".encode()).decode()
    for before in range(40, 60):  # each place of the line end
        yield base64.encodebytes(b"x" * before + KEY.encode() + b"y" * 60).decode()


def shows_the_key(text: str) -> bool:
    """Return True if a part of the key can be read in the text, also encoded."""
    plain = "".join(text.split())
    found = [plain]
    for start in range(4):
        usable = "".join(c for c in plain.replace("-", "+").replace("_", "/") if c.isalnum() or c in "+/")
        usable = usable[start:]
        found.append(base64.b64decode(usable[: len(usable) // 4 * 4]).decode("latin-1"))
    return any(KEY[3:-3] in hidden_text for hidden_text in found)


@pytest.mark.parametrize("sink", [name for name in SINKS if name != "fault"])
@pytest.mark.parametrize("said", list(encodings()))
def test_a_configured_key_is_hidden_in_each_encoding(said: str, sink: str, tmp_path: Path) -> None:
    written = SINKS[sink](said, tmp_path, Redactor((KEY,)))
    assert HIDDEN in written
    assert not shows_the_key(written)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("said", list(encodings()))
def test_a_model_server_that_repeats_a_key_shows_it_nowhere(said: str, size: int) -> None:
    events: list[ModelEvent] = []
    hiding = Hiding(Redactor((KEY, f"{KEY}-longer")), events.append)
    text = f"You sent {said}, and that is it."
    for at in range(0, len(text), size):
        hiding.emit(TextDelta(text[at : at + size]))
    call = ToolCall("c1", "bash", json.dumps({"command": f"echo {said}"}))
    reply = hiding.outcome(Reply(text, (call,), "stop", reasoning=text))
    streamed = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert isinstance(reply, Reply)
    assert streamed == reply.text
    assert streamed.startswith("You sent ")
    assert streamed.endswith(", and that is it.")
    assert not shows_the_key(streamed + reply.reasoning + str(reply.tool_calls))
    assert reply.tool_calls[0].arguments == HIDDEN


def test_words_that_only_begin_like_a_key_arrive_unchanged() -> None:
    events: list[ModelEvent] = []
    hiding = Hiding(Redactor((KEY,)), events.append)
    text = f"{KEY[:9]} and {KEY[:-1]} and {KEY[0]}"
    for letter in text:
        hiding.emit(TextDelta(letter))
    assert hiding.outcome(Reply(text)) == Reply(text)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == text


def test_a_form_that_is_taken_out_of_the_table_is_missed_everywhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The planted fault: without this entry of the table, the tests above fail, in every place."""
    without = [form for form in TABLE.forms if "ghp_" not in form.needles]
    assert len(without) == len(TABLE.forms) - 1
    monkeypatch.setattr(redact, "TABLE", SecretTable(without))
    for sink in SINKS.values():
        assert FORMS["github"] in sink(FORMS["github"], tmp_path, Redactor(()))
        for file in tmp_path.iterdir():
            file.unlink()
    assert not looks_secret(NewFact("note", FORMS["github"]))


def test_a_stream_that_is_not_held_back_shows_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: each piece is looked at by itself."""
    monkeypatch.setattr(Redactor, "open_end", lambda self, text, before="": len(text))
    events: list[ModelEvent] = []
    hiding = Hiding(Redactor((KEY,)), events.append)
    for letter in KEY:
        hiding.emit(TextDelta(letter))
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == KEY
