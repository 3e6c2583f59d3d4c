"""The keys of the input line on a pseudo-terminal, in real time because prompt_toolkit keeps its own."""

import os
import select
import signal
import tty
from pathlib import Path
from typing import Literal

import pytest
import trio

from rumi.agent.events import Thinking
from rumi.channels.terminal.options import ModelName, TerminalOptions
from rumi.texts import gettext
from tests.channels.terminal.ptys import Terminal
from tests.channels.terminal.scripted import STOPPED, Ask, ScriptedChat, Step, answering, finish, tool, words
from tests.channels.terminal.test_interactive import (
    ALT_ENTER,
    CTRL_C,
    CTRL_D,
    ENTER,
    PASTE,
    PASTED,
    TAB,
    UP,
    Session,
    session,
)

ESC, CTRL_E, CTRL_G, CTRL_O, CTRL_R, CTRL_X, DOWN = "\x1b", "\x05", "\x07", "\x0f", "\x12", "\x18", "\x1b[B"
EMACS = TerminalOptions(engine="docker")
VI = TerminalOptions(engine="docker", editing="vi")
MODELS = (ModelName("groq:m"), ModelName("quick", "= groq:fast"), ModelName("groq:other"))
ENTERED = "Enter sends it as a new message; /undo takes the last turn back."


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in (
        *("NO_COLOR", "COLORTERM", "COLUMNS", "LINES", "TMUX", "STY", "TERM_PROGRAM", "COLORFGBG"),
        *("VISUAL", "EDITOR", "PAGER", "LESS", "KITTY_WINDOW_ID", "LC_TERMINAL", "XTERM_VERSION"),
    ):
        monkeypatch.delenv(name, raising=False)


def script(folder: Path, name: str, text: str) -> str:
    """The path of a program that does this."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return str(path)


async def gone(window: Terminal, text: str) -> None:
    """Wait until `text` is nowhere on the screen."""
    await window.until(lambda: text not in "\n".join(window.shown))


def chat() -> ScriptedChat:
    return ScriptedChat({"first words": answering("ok 1"), "second": answering("ok 2")})


async def say_two(talk: Session) -> None:
    await talk.window.type("first words" + ENTER)
    await talk.window.see("ok 1")
    await talk.window.type("second" + ENTER)
    await talk.window.see("ok 2")


@pytest.mark.parametrize("options", [EMACS, VI])
async def test_ctrl_r_lists_earlier_messages_and_enter_takes_one(options: TerminalOptions) -> None:
    async with session(chat(), options=options) as talk:
        await say_two(talk)
        await talk.window.type(CTRL_R)
        await talk.window.see("› second")
        newest = next(place for place, line in enumerate(talk.window.shown) if line == "› second")
        await talk.window.until(lambda: "first words" in "".join(talk.window.shown[newest + 1 :]))
        await talk.window.type("frstwrds")  # letters in order
        await talk.window.see("1 of 1")
        await talk.window.type(ENTER)
        await gone(talk.window, "1 of 1")
        await talk.window.type(" more" + ENTER)
        await talk.window.until(lambda: "first words more" in talk.chat.texts)


@pytest.mark.parametrize("key", [ESC, CTRL_C, CTRL_G])
async def test_leaving_the_search_leaves_the_input_line_as_it_was(key: str) -> None:
    async with session(chat()) as talk:
        await say_two(talk)
        await talk.window.type("draft" + CTRL_R)
        await talk.window.see("1 of 2")
        await talk.window.type("zzz")
        await talk.window.see("No match.")
        await talk.window.type(ENTER + key)
        await talk.window.see("› draft")
        await talk.window.type("ed" + ENTER)
        await talk.window.until(lambda: talk.chat.texts[-1] == "drafted")


@pytest.mark.parametrize("new_line", [ALT_ENTER, "\n", "\\" + ENTER, "\x1b[13;2u", "\x1b[27;2;13~"])
@pytest.mark.parametrize("options", [EMACS, VI])
async def test_every_key_for_a_new_line_starts_one(new_line: str, options: TerminalOptions) -> None:
    async with session(ScriptedChat(), options=options) as talk:
        await talk.window.type(f"one{new_line}two")
        await talk.window.see("  two")
        await talk.window.type(ENTER)
        await talk.window.until(lambda: talk.chat.texts == ["one\ntwo"])


async def test_lines_typed_before_the_start_are_sent_one_by_one() -> None:
    async with session(ScriptedChat(), typed_ahead=f"one{ENTER}two{ENTER}thr") as talk:
        await talk.window.until(lambda: talk.chat.texts == ["one", "two"])
        await talk.window.type(f"ee{ALT_ENTER}four{ENTER}")
        await talk.window.until(lambda: talk.chat.texts[-1] == "three\nfour")


async def test_a_message_that_ends_with_two_backslashes_is_sent() -> None:
    async with session(ScriptedChat()) as talk:
        await talk.window.type("C:\\\\" + ENTER)
        await talk.window.until(lambda: talk.chat.texts == ["C:\\\\"])


async def test_esc_stops_the_turn_and_never_leaves() -> None:
    chat = ScriptedChat({"go": [Thinking(1), 60.0]}, stop_s=1.5)
    async with session(chat) as talk:
        await talk.window.type("go" + ENTER)
        await talk.window.see("thinking")
        for _ in range(4):
            await talk.window.type(ESC)
            await trio.sleep(0.25)  # one by one: two at once are another key
        await talk.window.see(STOPPED)
        assert (chat.texts, talk.code) == (["go", "/stop"], None)


async def test_an_alt_enter_in_two_parts_during_a_turn_stops_nothing() -> None:
    async with session(ScriptedChat({"go": [Thinking(1), 60.0]})) as talk:
        await talk.window.type("go" + ENTER)
        await talk.window.see("thinking")
        await talk.window.type("a" + ESC)
        await trio.sleep(0.01)
        await talk.window.type(ENTER + "b")
        await talk.window.see("  b")
        assert talk.chat.texts == ["go"]


async def test_in_vi_mode_esc_changes_the_mode_and_ctrl_c_stops() -> None:
    async with session(ScriptedChat({"go": [Thinking(1), 60.0]}), options=VI) as talk:
        await talk.window.see("INSERT")
        await talk.window.type("go" + ENTER)
        await talk.window.see("thinking")
        await talk.window.type("abc" + ESC)
        await talk.window.see("NORMAL")
        await talk.window.type("0x")
        await talk.window.see("› bc")
        assert talk.chat.texts == ["go"]
        await talk.window.type(CTRL_C)
        await talk.window.see(STOPPED)


@pytest.mark.parametrize("pause", [0.0, 0.3])
async def test_esc_twice_edits_the_last_message(pause: float) -> None:
    async with session(chat()) as talk:
        await say_two(talk)
        await talk.window.type(ESC)
        await trio.sleep(pause)
        await talk.window.type(ESC)
        await talk.window.see(gettext("en", ENTERED))
        await talk.window.type("!" + ENTER)
        await talk.window.until(lambda: talk.chat.texts[-1] == "second!")


async def test_esc_twice_leaves_a_draft_alone() -> None:
    async with session(chat()) as talk:
        await say_two(talk)
        await talk.window.type("draft")
        await talk.window.see("› draft")
        await talk.window.type(ESC + ESC)
        await trio.sleep(0.2)
        await talk.window.type("ed" + ENTER)
        await talk.window.until(lambda: talk.chat.texts[-1] == "drafted")


@pytest.mark.parametrize("keys", [CTRL_G, CTRL_X + CTRL_E])
async def test_the_editor_gets_the_draft_and_returns_it(
    keys: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = script(tmp_path, "ed it", 'printf "%s: %s\\nand more\\n" "$1" "$(cat "$2")" > "$2"')
    monkeypatch.setenv("VISUAL", f"'{editor}' --wait")
    async with session(ScriptedChat()) as talk:
        await talk.window.type(f"draft{keys}")
        await talk.window.see("  and more")
        await talk.window.type("!" + ENTER)
        await talk.window.until(lambda: talk.chat.texts == ["--wait: draft\nand more!"])
        await talk.leave()
        assert talk.window.restored


async def test_a_turn_goes_on_while_the_editor_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    monkeypatch.setenv(
        "EDITOR", script(tmp_path, "ed", f"echo opened; while [ ! -e {go} ]; do sleep 0.05; done")
    )
    async with session(ScriptedChat({"go": [Thinking(1), 0.5, finish("the answer")]})) as talk:
        await talk.window.type("go" + ENTER)
        await talk.window.see("thinking")
        await talk.window.type(CTRL_G)
        await talk.window.see("opened")
        os.kill(os.getpid(), signal.SIGINT)  # Ctrl-C in a program that has the terminal
        await trio.sleep(0.7)
        assert "the answer" not in "\n".join(talk.window.shown)
        go.touch()
        await talk.window.see("the answer")
        assert talk.chat.texts == ["go"]


async def test_a_killed_editor_leaves_the_terminal_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wild = (
        'stty raw -echo < /dev/tty 2>/dev/null || stty raw -echo; printf "\\033[?1049h\\033[?25l"; kill -9 $$'
    )
    monkeypatch.setenv("EDITOR", script(tmp_path, "ed", wild))
    async with session(ScriptedChat()) as talk:
        await talk.window.type("draft" + CTRL_G)
        await talk.window.see("failed, so the input line is unchanged")
        assert talk.window.raw.index(b"\x1b[?1049l") > talk.window.raw.index(b"\x1b[?1049h")
        await talk.window.see("› draft")
        await talk.window.type("ed" + ENTER)
        await talk.window.until(lambda: talk.chat.texts == ["drafted"])
        await talk.leave()
        assert talk.window.restored


@pytest.mark.parametrize("editor", ["/nowhere/ed", "/nowhere/ed --wait"])
async def test_an_editor_that_does_not_exist_is_named(editor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", editor)
    async with session(ScriptedChat(), columns=120) as talk:
        await talk.window.type("draft" + CTRL_G)
        await talk.window.see(f"The editor {editor} can't be started.")
        await talk.window.type("ed" + ENTER)
        await talk.window.until(lambda: talk.chat.texts == ["drafted"])


async def test_a_signal_ends_the_editor_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = tmp_path / "pid"
    monkeypatch.setenv("EDITOR", script(tmp_path, "ed", f"echo $$ > {pid}; echo opened; exec sleep 60"))
    async with session(ScriptedChat()) as talk:
        await talk.window.type(CTRL_G)
        await talk.window.see("opened")
        os.kill(os.getpid(), signal.SIGTERM)
        await talk.end()
        assert (talk.code, talk.window.restored) == (130, True)
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)


async def test_ten_thousand_pasted_lines_are_folded_and_sent_whole() -> None:
    text = "".join(f"line {number} with words\r" for number in range(10_000))
    async with session(ScriptedChat()) as talk:

        async def paste() -> None:
            data = (PASTE + text + PASTED).encode()
            await trio.to_thread.run_sync(
                lambda: [os.write(talk.window.master, data[i : i + 4000]) for i in range(0, len(data), 4000)]
            )

        await paste()
        await talk.window.see("[#1: 10001 lines pasted]")
        assert talk.chat.texts == []
        await talk.window.type(" and a word" + ENTER)
        await talk.window.until(lambda: bool(talk.chat.texts))
        assert talk.chat.texts[0] == text.replace("\r", "\n") + " and a word"
        await talk.window.see("9982 more lines")


async def test_a_paste_is_not_searched_for_keys() -> None:
    async with session(ScriptedChat()) as talk:
        await talk.window.type(f"{PASTE}a\x1b[13;2u\x1b[Ib{PASTED}")
        await talk.window.see("b")
        await talk.window.type(ENTER)
        await talk.window.until(lambda: talk.chat.texts == ["a\x1b[13;2u\x1b[Ib"])


async def test_longer_keys_are_switched_on_if_known_and_off_at_the_end() -> None:
    async with session(ScriptedChat({"go": [Thinking(1), 60.0]})) as talk:
        assert b"\x1b[>1u" not in talk.window.raw
        await talk.window.type("\x1b[?0u\x1b[?62c")
        await talk.window.until(lambda: b"\x1b[>1u" in talk.window.raw)
        await talk.window.type("go" + ENTER)
        await talk.window.see("thinking")
        await talk.window.type("\x1b[99;5u")  # Ctrl-C
        await talk.window.see(STOPPED)
        await talk.window.type("\x1b[100;5u")  # Ctrl-D
        await talk.end()
        raw = talk.window.raw
        assert raw.rindex(b"\x1b[<u") > raw.rindex(b"\x1b[>1u")
        assert raw.rindex(b"\x1b[?1004l") > raw.rindex(b"\x1b[?1004h")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_switches_the_reports_off(number: signal.Signals) -> None:
    async with session(ScriptedChat()) as talk:
        await talk.window.type("\x1b[?0u\x1b[?62c")
        await talk.window.until(lambda: b"\x1b[>1u" in talk.window.raw)
        os.kill(os.getpid(), number)
        await talk.end()
        assert talk.window.restored
        assert b"\x1b[<u" in talk.window.raw
        assert talk.window.raw.rindex(b"\x1b[?1004l") > talk.window.raw.rindex(b"\x1b[?1004h")


async def test_answers_of_the_terminal_are_never_typed() -> None:
    async with session(ScriptedChat({"go": answering("`code`")})) as talk:
        await talk.window.type("a\x1b]11;rgb:ffff/ff")
        await trio.sleep(0.2)  # a slow connection
        await talk.window.type("ff/ffff\x1b\\b\x1b[I\x1b[O\x1b[?62;4cc")
        await talk.window.see("› abc")
        await talk.window.type(CTRL_C + "go" + ENTER)
        await talk.window.until(lambda: b"\x1b[34mcode" in talk.window.raw)  # blue on white


async def test_answers_that_come_after_an_editor_do_not_reach_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", script(tmp_path, "editor", "exit 0"))
    async with session(ScriptedChat()) as talk:
        await talk.window.type("\x1b[?62c")
        await talk.window.type(CTRL_G)
        await talk.window.until(lambda: talk.window.raw.count(b"\x1b[c") == 2)
        await talk.window.type(CTRL_D)
        await trio.sleep(0.05)  # a slow connection
        await talk.window.type("\x1b[?0u\x1b[?62c")
        await talk.end()
        tty.setcbreak(talk.window.slave)
        assert not select.select([talk.window.slave], [], [], 0)[0]


async def test_a_long_paste_that_the_chat_did_not_take_comes_back_folded() -> None:
    pasted = "\n".join(map(str, range(40)))
    async with session(ScriptedChat({"go": [Thinking(1), 60.0]})) as talk:
        await talk.window.type("go" + ENTER)
        await talk.window.see("thinking")
        await talk.window.type(PASTE + pasted + PASTED + ENTER)
        await talk.window.until(lambda: talk.chat.texts == ["go", pasted])
        await talk.window.see("› [#1: 40 lines pasted]")
        await talk.window.type("!" + ENTER)
        await talk.window.until(lambda: talk.chat.texts[2:] == [f"{pasted}!"])


async def test_esc_twice_does_not_show_a_pasted_key_again() -> None:
    async with session(chat()) as talk:
        await say_two(talk)
        await talk.window.type("sk-ant-api03-" + "aB1c" * 20 + ENTER)
        await talk.window.see("sk-a…")
        await talk.window.type(ESC + ESC)
        await talk.window.see(gettext("en", ENTERED))
        await talk.window.see("› second")
        assert "aB1caB1c" not in "\n".join(talk.window.shown)


@pytest.mark.parametrize(
    ("focus", "took", "rings"),
    [("", 0.3, True), ("\x1b[O", 0.3, True), ("\x1b[I", 0.3, False), ("", 0.0, False)],
)
async def test_a_long_turn_rings_if_nobody_may_see_its_end(focus: str, took: float, rings: bool) -> None:
    chat = ScriptedChat({"go": [Thinking(1), took, finish("done it")]})
    async with session(chat, options=TerminalOptions(engine="docker", notify_s=0.2)) as talk:
        await talk.window.type(focus + "go" + ENTER)
        await talk.window.see("done it")
        await talk.window.until(lambda: talk.chat.idle)
        await talk.leave()
        assert (b"\x07" in talk.window.raw) is rings


async def test_a_question_rings_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM_PROGRAM", "ghostty")
    async with session(ScriptedChat({"go": [Ask("May I?", [], [])]})) as talk:
        await talk.window.type("go" + ENTER)
        await talk.window.see("May I?")
        notice = gettext("en", "Rumi asks something in the chat {chat}", chat="cli")
        await talk.window.until(lambda: f"\x1b]9;{notice}\x1b\\".encode() in talk.window.raw)


OUTPUT = "\n".join(f"row {number}" for number in range(200)) + "\n\x1b]0;evil\x07\x1b[31mred"


async def test_ctrl_o_shows_the_folded_output_whole_in_the_pager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "PAGER", script(tmp_path, "pager", f"cat > {tmp_path}/seen; mv {tmp_path}/seen {tmp_path}/all")
    )
    steps: list[Step] = [Thinking(1), *tool("list", OUTPUT), *words("text"), 60.0]
    async with session(ScriptedChat({"go": steps})) as talk:
        await talk.window.type("go" + ENTER)
        await talk.window.see("more lines · Ctrl-O shows them")
        assert "row 100" not in "\n".join(talk.window.everything)
        await talk.window.type(CTRL_O)  # during the turn
        await talk.window.until((tmp_path / "all").exists)
        seen = (tmp_path / "all").read_text()
        assert [f"row {number}" in seen for number in range(200)] == [True] * 200
        assert "evil" not in seen
        assert "\x1b[31mred" not in seen
        (tmp_path / "all").unlink()
        await talk.window.type("/transcript" + ENTER)
        await talk.window.until((tmp_path / "all").exists)
        whole = (tmp_path / "all").read_text()
        assert [part in whole for part in ("› ", "go", "row 100", "text")] == [True] * 4
        await talk.window.type(CTRL_C)
        await talk.window.see(STOPPED)


async def test_without_a_pager_the_output_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", "/nowhere/pager")
    monkeypatch.setenv("PATH", str(tmp_path))
    async with session(ScriptedChat({"go": [*tool("list", OUTPUT), finish("done it")]})) as talk:
        await talk.window.type(CTRL_O)
        await talk.window.see("No output is folded.")
        await talk.window.type("go" + ENTER)
        await talk.window.see("done it")
        await talk.window.type(CTRL_O)
        await talk.window.until(lambda: "    row 100" in talk.window.everything)


async def test_model_alone_opens_a_picker(monkeypatch: pytest.MonkeyPatch) -> None:
    async with session(ScriptedChat(), options=TerminalOptions(engine="docker", models=MODELS)) as talk:
        await talk.window.type("/model" + ENTER)
        await talk.window.see("› ✓ groq:m")
        await talk.window.see("  quick  = groq:fast")
        await talk.window.type(DOWN + DOWN + UP + DOWN + ENTER)
        await talk.window.see("From this window's next message on: groq:other")
        await talk.window.type("/model" + ENTER)
        await talk.window.see("› ✓ groq:other")
        await talk.window.type(ESC)
        await gone(talk.window, "Esc leaves")
        await talk.window.type("/model qck")
        await talk.window.see("quick")
        await talk.window.type(TAB)
        await talk.window.see("› /model quick")
        await talk.window.type(CTRL_C + "/model qick" + ENTER)
        await talk.window.see("Did you mean quick?")
        assert talk.chat.texts == []


@pytest.mark.parametrize("columns", [20, 60, 100, 200])
async def test_the_picker_and_the_keys_fit_every_width(columns: int) -> None:
    names = tuple(ModelName(f"groq:日本語の名前-{number}", "detail " * 20) for number in range(40))
    options = TerminalOptions(engine="docker", models=names)
    async with session(ScriptedChat(), columns=200, options=options) as talk:
        await talk.window.type("/model" + ENTER)
        await talk.window.see("1 of 40")
        talk.window.resize(columns, 12)
        await talk.window.until(lambda: any("1 of 40" in line for line in talk.window.shown[-6:]))
        await talk.window.type(DOWN * 5)
        await talk.window.see("6 of 40")
        assert sum("日本" in line for line in talk.window.shown) >= 3
        await talk.window.type(ESC)
        await talk.window.until(lambda: "6 of 40" not in "\n".join(talk.window.shown))
        await talk.window.type("?")
        await talk.window.see("Ctrl-O")
        await talk.window.type("x")
        await gone(talk.window, "Ctrl-O")
        await talk.window.see("› x")


async def test_a_terminal_that_closes_under_a_picker_ends_the_chat() -> None:
    options = TerminalOptions(engine="docker", models=MODELS)
    async with session(ScriptedChat(), options=options) as talk:
        await talk.window.type("/model" + ENTER)
        await talk.window.see("Esc leaves")
        talk.window.hang_up()
        with trio.fail_after(10):
            await talk.ended.wait()


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_a_theme_of_the_settings_asks_nothing(theme: Literal["light", "dark"]) -> None:
    options = TerminalOptions(engine="docker", theme=theme)
    async with session(ScriptedChat({"go": answering("`code`")}), options=options) as talk:
        await talk.window.type("go" + ENTER)
        colour = b"\x1b[34mcode" if theme == "light" else b"\x1b[36mcode"
        await talk.window.until(lambda: colour in talk.window.raw)
        assert b"\x1b]11;?" not in talk.window.raw
        await talk.window.type(CTRL_D)
