"""The whole program where a shell, a pipe or a person treats it roughly."""

import os
import signal
import subprocess
import time

import pytest

from tests.cli.program import BOUND_S, RUMI, Program


@pytest.mark.parametrize("words", [("status", "--watch"), ("status", "--watch", "--json")])
def test_ctrl_c_ends_watching_without_a_word(bubblewrap: Program, words: tuple[str, ...]) -> None:
    chat = bubblewrap.start("chat")
    try:
        while bubblewrap.run("status", code=None).returncode != 0:
            assert chat.poll() is None
        watching = bubblewrap.start(*words)
        assert watching.stdout is not None
        assert watching.stdout.readline()
        time.sleep(0.2)  # into its sleep, where Ctrl-C comes out of a nursery
        watching.send_signal(signal.SIGINT)
        _, errors = watching.communicate(timeout=BOUND_S)
        assert (watching.returncode, errors) == (130, "")
    finally:
        chat.communicate("", timeout=BOUND_S)


@pytest.mark.parametrize("words", [("status", "--watch"), ("status", "--watch", "--json")])
def test_watching_ends_quietly_when_nobody_reads(bubblewrap: Program, words: tuple[str, ...]) -> None:
    chat = bubblewrap.start("chat")
    try:
        while bubblewrap.run("status", code=None).returncode != 0:
            assert chat.poll() is None
        with bubblewrap.start(*words) as watching:
            assert watching.stdout is not None
            assert watching.stderr is not None
            assert watching.stdout.readline()
            watching.stdout.close()
            assert watching.stderr.read() == ""
            assert watching.wait(timeout=BOUND_S) == 1
    finally:
        chat.communicate("", timeout=BOUND_S)


def test_a_text_that_is_no_utf8_is_worked_on_all_the_same(bubblewrap: Program) -> None:
    done = subprocess.run(
        [RUMI.encode(), b"chat", b"-p", b"run echo \xff hola"],
        env=bubblewrap.environment(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "\ufffd hola" in done.stdout.decode()


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("st", {"status"}),
        ("debug sandbox b", {"build"}),
        ("chats s", {"search", "sessions", "show", "stop"}),
        ("chat --mo", {"--model"}),
    ],
)
def test_a_shell_completes_commands_and_options(bubblewrap: Program, line: str, completed: set[str]) -> None:
    words = {"COMP_WORDS": f"rumi {line}", "COMP_CWORD": f"{len(line.split())}"}
    bubblewrap.env |= {**words, "_RUMI_COMPLETE": "bash_complete"}
    found = bubblewrap.run().stdout.splitlines()
    assert {name.removeprefix("plain,") for name in found} == completed


@pytest.mark.long
@pytest.mark.parametrize("closed", [(0,), (2,), (0, 1, 2)])
def test_closed_standard_streams_are_no_trouble(bubblewrap: Program, closed: tuple[int, ...]) -> None:
    redirections = " ".join(f"{number}>&-" for number in closed)
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" "$@" {redirections}', RUMI, "chat", "-p", "write a: uno"],
        env=bubblewrap.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert (bubblewrap.home / "workspace" / "cli" / "a").read_text() == "uno"


@pytest.mark.long
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_behind_the_output_is_one_clear_sentence(bubblewrap: Program) -> None:
    chat = bubblewrap.start("chat")
    try:
        while bubblewrap.run("status", code=None).returncode != 0:
            assert chat.poll() is None
        for words in (("chat", "-p", "run echo hola"), ("status",), ("status", "--json")):
            with open("/dev/full", "wb") as full:
                done = subprocess.run(
                    [RUMI, *words],
                    env=bubblewrap.environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=full,
                    stderr=subprocess.PIPE,
                    text=True,
                    timeout=60,
                    check=False,
                )
            assert done.returncode == 1
            assert "The output cannot be written: No space left on device." in done.stderr
            assert not set(done.stderr.split()) & {"Traceback", "Exception"}
    finally:
        chat.communicate("", timeout=BOUND_S)


def test_help_is_there_in_short_too(bubblewrap: Program) -> None:
    assert "Commands:" in bubblewrap.run("-h").stdout
    assert "--chat" in bubblewrap.run("chat", "-h").stdout


def test_leaving_is_no_message_and_unknown_commands_are_named(bubblewrap: Program) -> None:
    assert bubblewrap.run("chat", "-p", "/exit").stdout == ""
    assert "/frob-2" in bubblewrap.run("chat", "-p", "/frob-2").stdout
    listed = bubblewrap.run("chat", "-p", "/help").stdout
    for name in ("/start", "/help", "/stop", "/reset", "/status", "/retry", "/memory", "/skills"):
        assert f"`{name}`" in listed


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("--versio",), "--version"),
        (("--hel",), "--help"),
        (("--modle", "x"), "--model"),
        (("--debug", "--jsno"), "--json"),
        (("statu",), "status"),
    ],
)
def test_a_word_with_a_typing_error_is_told_what_is_meant(
    bubblewrap: Program, words: tuple[str, ...], meant: str
) -> None:
    error = bubblewrap.run(*words, code=2).stderr.splitlines()[-1]
    assert "Did you mean" in error
    assert f"'{meant}'" in error
