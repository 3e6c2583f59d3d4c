"""The flight recorder: what it keeps, and that a turn runs again as it was, in another process."""

import json
import threading
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from rumi.agent.breakers import TurnLimits
from rumi.agent.prompts.prompts import Prompts, built_in
from rumi.agent.tool import ToolResult
from rumi.agent.tools.delegate import INSTRUCTIONS, Delegate
from rumi.agent.turn import run_turn
from rumi.agent.turn_input import TurnInput
from rumi.app.toolbox import specs_now
from rumi.chats.recorder.recorder import LONG_CHARS, Recorder, delete_recordings, recorded
from rumi.chats.recorder.recording import find_recording, read_recording
from rumi.chats.recorder.replaying import Now, fork, replay
from rumi.chats.recorder.report import contents, pack
from rumi.models.model import Emit, Message, ModelError, ModelRequest, Reply, ToolCall, ToolSpec
from rumi.platform.config.schema import Settings
from rumi.platform.redact import HIDDEN, MOST_REMEMBERED, Redactor
from tests.chats.house import FunctionModel
from tests.fakes.tools import Unasked
from tests.platform.test_secret_forms import FORMS

SAVED = Path(__file__).parents[2] / "recordings" / "three-calls.jsonl"
SECRET = "s3cr3t-value-of-a-key"
BASE = Prompts(built_in()).instructions(("ls", "git"), 30.0)
TOOL = specs_now()["remember"][0]


async def works(request: ModelRequest, emit: Emit) -> Reply:
    """Makes three calls in two replies, the second after a pause, and then answers."""
    await trio.sleep(2)
    done = [m.content for m in request.messages if m.role == "tool"]
    if not done:
        calls = tuple(
            ToolCall(f"c{n}", "remember", json.dumps({"key": "k", "value": str(n)})) for n in (1, 2)
        )
        return Reply("I look.", calls, "tool_calls", reasoning="two at once")
    if len(done) == 2:
        return Reply("", (ToolCall("c3", "remember", '{"value": "3", "key": "k"}'),), "tool_calls")
    return Reply(f"Found {len(done)}.")


class Numbered(Unasked):
    """Answers with its value, after a second, and with a secret that it should not have."""

    spec = TOOL

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        await trio.sleep(1)
        return ToolResult(
            True, f"result {arguments['value']} with {SECRET}", tainted=True, links=("http://a/",)
        )


def given(answer: object = works) -> TurnInput:
    return TurnInput(
        instructions=f"{BASE}\n\nWhat holds.",
        history=(Message("user", f"please, {SECRET}"),),
        model=FunctionModel(answer),  # type: ignore[arg-type]
        tools=(Numbered(),),
        limits=TurnLimits(),
        language="en",
    )


def recorder(home: Path, turns: int = 2, **more: int) -> Recorder:
    return Recorder(
        home, Redactor([SECRET]).remembering(), turns, instructions=BASE, programs=("ls", "git"), **more
    )


async def keep(_: object) -> None:
    await trio.lowlevel.checkpoint()


async def run(home: Path, turn: str = "t1", begin: TurnInput | None = None, **more: int) -> Path:
    """Record a turn; return the file."""
    with recorded(recorder(home, **more), "cli", turn, begin or given(), lambda _: None) as (made, watch):
        await run_turn(made, watch, keep)
    return home / "recordings" / "cli" / f"{turn}.jsonl"


async def test_a_turn_with_three_calls_replays_identically(tmp_path: Path, autojump_clock: object) -> None:
    path = await run(tmp_path)
    turn = read_recording(path)
    assert [len(turn.model_calls), len(turn.calls)] == [3, 3]
    found = await replay(turn, Now(BASE, specs_now()), Redactor([SECRET]))
    assert (found.requests, found.calls, found.difference) == (3, 3, None)


async def test_a_turn_with_a_delegate_replays_without_one(tmp_path: Path, autojump_clock: object) -> None:
    async def delegates(request: ModelRequest, emit: Emit) -> Reply:
        await trio.sleep(2)
        done = request.messages[-1].role == "tool"
        if INSTRUCTIONS in request.messages[0].content:
            return Reply("two") if done else Reply("", (ToolCall("i", "remember", '{"value": 2}'),))
        call = ToolCall("d", "delegate", '{"goal": "look", "tools": "all"}')
        return Reply("done") if done else Reply("", (call,))

    begin = replace(given(delegates), tools=(Numbered(), Delegate()))
    turn = read_recording(await run(tmp_path, begin=begin))
    assert [len(turn.model_calls), len(turn.calls)] == [2, 2], "the delegate's calls, but not its requests"
    found = await replay(turn, Now(BASE, specs_now()), Redactor([SECRET]))
    assert (found.requests, found.calls, found.difference) == (2, 1, None)


class Long(Numbered):
    """Answers with a result that takes long to search for secrets."""

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        return ToolResult(True, f"{'line of text ' * 4000}{arguments['value']} {SECRET}")


async def test_a_long_result_is_redacted_in_a_thread(tmp_path: Path, autojump_clock: object) -> None:
    threads = set[tuple[str, bool]]()

    class Watched(Redactor):
        def text(self, text: str) -> str:
            threads.add((threading.current_thread().name.split("_")[0], len(text) >= LONG_CHARS))
            return super().text(text)

    begin, recorder = replace(given(), tools=(Long(),)), Recorder(tmp_path, Watched([SECRET]), 2)
    with recorded(recorder, "cli", "t1", begin, lambda _: None) as (made, watch):
        await run_turn(made, watch, keep)
    assert recorder.stored.thread is not None
    recorder.stored.thread.shutdown()  # waits for what is being written
    assert {name for name, long in threads if long} == {"recorder"}
    path = tmp_path / "recordings" / "cli" / "t1.jsonl"
    assert SECRET not in path.read_text()
    assert [json.loads(line)["kind"] for line in path.read_text().splitlines()] == [
        *("turn", "request", "reply", "tool", "tool", "request", "reply", "tool", "request", "reply", "end")
    ]
    found = await replay(read_recording(path), Now("", specs_now()), Redactor([SECRET]))
    assert (found.requests, found.calls, found.difference) == (3, 3, None)


async def test_the_saved_recording_replays_identically(autojump_clock: object) -> None:
    found = await replay(read_recording(SAVED), Now())
    assert (found.requests, found.calls, found.difference) == (3, 3, None)


async def test_a_changed_prompt_is_shown_as_the_difference(tmp_path: Path, autojump_clock: object) -> None:
    turn = read_recording(await run(tmp_path))
    found = await replay(turn, Now(f"{BASE}\n\nBe brief.", specs_now()), Redactor([SECRET]))
    assert found.difference is not None
    assert (found.difference.request, found.difference.where) == (1, "message 0 (system)")
    assert "+Be brief." in found.difference.diff


async def test_a_changed_tool_is_shown_as_the_difference(tmp_path: Path, autojump_clock: object) -> None:
    turn = read_recording(await run(tmp_path))
    changed = ToolSpec(TOOL.name, f"{TOOL.description} Always.", TOOL.parameters)
    found = await replay(turn, Now(BASE, {TOOL.name: [changed]}), Redactor([SECRET]))
    assert found.difference is not None
    assert found.difference.where == "tool remember"


async def test_no_secret_is_in_a_recording(tmp_path: Path, autojump_clock: object) -> None:
    path = await run(tmp_path)
    assert SECRET not in path.read_text()
    assert "[hidden]" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600


async def test_the_last_turns_are_kept_and_deleted_with_their_chat(
    tmp_path: Path, autojump_clock: object
) -> None:
    for turn in ("t9", "t10", "t11"):
        path = await run(tmp_path, turn)
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["t10.jsonl", "t11.jsonl"]
    assert find_recording(tmp_path, "t11") == path
    delete_recordings(tmp_path, ("cli",))
    assert not path.parent.exists()


async def test_a_turn_that_is_too_long_is_not_recorded_and_goes_on(
    tmp_path: Path, autojump_clock: object
) -> None:
    path = await run(tmp_path, max_bytes=5_000)
    assert not path.exists()


async def test_a_stopped_turn_and_a_torn_line_replay_up_to_their_end(
    tmp_path: Path, autojump_clock: object
) -> None:
    with trio.move_on_after(5.5):  # in the second reply
        await run(tmp_path)
    path = tmp_path / "recordings" / "cli" / "t1.jsonl"
    with path.open("a") as file:
        file.write('{"kind": "rep')
    turn = read_recording(path)
    assert turn.model_calls[-1].reply is None
    found = await replay(turn, Now(BASE, specs_now()), Redactor([SECRET]))
    assert (found.requests, found.difference) == (2, None)


async def test_a_failure_of_the_model_and_a_timeout_happen_again(
    tmp_path: Path, autojump_clock: object
) -> None:
    async def fails(request: ModelRequest, emit: Emit) -> Reply:
        await trio.sleep(1)
        raise ModelError("server", "It is down.")

    turn = read_recording(await run(tmp_path, begin=given(fails)))
    assert (await replay(turn, Now(BASE, specs_now()), Redactor([SECRET]))).difference is None

    async def silent(request: ModelRequest, emit: Emit) -> Reply:
        await trio.sleep(0 if request.words_only else 10_000)
        return Reply("That was all.")

    turn = read_recording(await run(tmp_path, begin=given(silent)))
    found = await replay(turn, Now(BASE, specs_now()), Redactor([SECRET]))
    assert (found.requests, found.difference) == (2, None)


async def test_a_fork_asks_another_model_and_does_nothing_new(tmp_path: Path, autojump_clock: object) -> None:
    turn = read_recording(await run(tmp_path))

    async def other(request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        done = [m.content for m in request.messages if m.role == "tool"]
        if len(done) == 2:
            return Reply("", (ToolCall("x", "remember", '{"key": "k", "value": "9"}'),))
        return Reply(done[-1])

    forked = await fork(turn, Now(BASE, specs_now()), 2, FunctionModel(other))
    assert forked.finished.answer.startswith("not recorded")
    assert [recorded for _, recorded in forked.calls] == [True, True, False]


async def test_a_report_says_what_is_in_it_before(tmp_path: Path, autojump_clock: object) -> None:
    path = await run(tmp_path)
    lines = "\n".join(contents(read_recording(path), Redactor(())))
    assert "please, [hidden]" in lines
    assert "3 tool calls" in lines
    pack(path, tmp_path / "t1.zip", Redactor(()))
    with zipfile.ZipFile(tmp_path / "t1.zip") as packed:
        assert sorted(packed.namelist()) == ["about.json", "recording.jsonl"]
    with pytest.raises(FileExistsError):
        pack(path, tmp_path / "t1.zip", Redactor(()))


async def test_recordings_are_on_for_the_last_20_turns() -> None:
    assert Settings().record.turns == 20


async def test_each_form_of_a_secret_is_hidden_wherever_it_stands(
    tmp_path: Path, autojump_clock: object
) -> None:
    for form, planted in FORMS.items():
        await _check_hidden(tmp_path, form, planted)


async def _check_hidden(home: Path, form: str, planted: str) -> None:
    async def tells(request: ModelRequest, emit: Emit) -> Reply:
        if request.messages[-1].role == "tool":
            return Reply(f"It is {planted}", reasoning=f"so {planted}")
        return Reply("", (ToolCall("c", "remember", json.dumps({"key": "k", "value": planted})),))

    begin = replace(given(tells), history=(Message("user", f"look:\n{planted}"),))
    path = await run(home, begin=begin)
    strings = [text for line in path.read_text().splitlines() for text in _strings(json.loads(line))]
    assert any(HIDDEN in text for text in strings), form
    plain = Redactor(())
    assert [text for text in strings if plain.text(text) != text] == [], form
    assert [text for text in strings if f"look:\n{planted}" in text] == [], form


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in parts for text in _strings(part)]


async def test_a_chat_and_all_chats_have_a_maximum_size(tmp_path: Path, autojump_clock: object) -> None:
    one = (await run(tmp_path, "t1", turns=9)).stat().st_size
    for number in range(2, 6):
        path = await run(tmp_path, f"t{number}", turns=9, chat_bytes=2 * one + one // 2)
    assert [entry.name for entry in sorted(path.parent.iterdir())] == ["t3.jsonl", "t4.jsonl", "t5.jsonl"]
    for number in range(6, 9):
        path = await run(tmp_path, f"t{number}", turns=9, total_bytes=2 * one)
    kept = sum(entry.stat().st_size for entry in tmp_path.glob("recordings/*/*.jsonl"))
    assert kept <= 3 * one + 500, "the maximum, and the turn that runs"
    assert path.exists()


async def test_a_long_history_is_searched_for_secrets_once(tmp_path: Path) -> None:
    redact, text = Redactor([SECRET]).remembering(), f"{SECRET} " * 50
    assert SECRET not in redact.text(text)
    assert redact._memo is not None
    assert text in redact._memo
    for number in range(60):
        redact.text(f"{number}" + "x" * 100_000)
    assert redact._memo_chars <= MOST_REMEMBERED
    assert text not in redact._memo
