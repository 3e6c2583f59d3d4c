"""The bash tool: what reaches the sandbox, and how a result reads."""

import pytest
import trio

from rumi.agent.tool import ToolResult
from rumi.agent.tools.bash import Bash, BashOutput, BashStop, bash_tools
from rumi.sandbox.engine import Command, CommandResult, Output, SandboxError, SandboxLimits
from rumi.sandbox.policy import STRICT, CommandPolicy


class Recorder:
    """A shell that notes what it is given and answers with what it was told to."""

    def __init__(self, result: CommandResult | SandboxError) -> None:
        self.result = result
        self.commands: list[Command] = []
        self.prepared = 0
        self.files_tainted = False

    @property
    def tainted(self) -> bool:
        return self.files_tainted

    async def prepare(self) -> None:
        self.prepared += 1

    async def run(self, command: Command) -> CommandResult:
        self.commands.append(command)
        if isinstance(self.result, SandboxError):
            raise self.result
        return self.result


def ended(**changes: object) -> CommandResult:
    fields: dict[str, object] = {
        "exit_code": 0,
        "stdout": Output(b"hola\n", b"", 5),
        "stderr": Output(),
        "duration_ms": 12,
        "ended": "exited",
        "container_id": "abc",
    }
    return CommandResult(**{**fields, **changes})  # type: ignore[arg-type]


async def call(result: CommandResult, **arguments: object) -> ToolResult:
    return await Bash(Recorder(result)).call(arguments)


async def test_words_and_standard_input_reach_the_sandbox() -> None:
    shell = Recorder(ended())
    result = await Bash(shell).call({"command": "tee 'a b.txt'", "stdin": "uno\n"})
    assert shell.commands == [Command(("bash", "-c", "tee 'a b.txt'"), b"uno\n")]
    assert result.trace is not None
    assert (result.trace.argv, result.trace.container_id) == (("tee", "a b.txt"), "abc")


async def test_a_refusal_never_reaches_the_sandbox() -> None:
    shell = Recorder(ended())
    result = await Bash(shell).call({"command": "curl example.org"})
    assert not result.ok
    assert "curl" in result.content
    assert shell.commands == []


@pytest.mark.parametrize(
    "arguments", [{}, {"command": 1}, {"command": ["ls"]}, {"command": "ls", "stdin": 2}]
)
async def test_arguments_of_the_wrong_kind_are_a_failed_result(arguments: dict[str, object]) -> None:
    assert not (await Bash(Recorder(ended())).call(arguments)).ok


async def test_a_result_gives_code_duration_and_both_streams() -> None:
    result = await call(ended(exit_code=2, stderr=Output(b"no such file\n", b"", 13)), command="ls x")
    assert result.ok
    assert result.exit_code == 2
    assert result.content == "exit code 2 (12 ms)\noutput:\nhola\n\nerror output:\nno such file\n"


async def test_durations_do_not_make_results_differ() -> None:
    first = await call(ended(duration_ms=1), command="ls")
    second = await call(ended(duration_ms=2), command="ls")
    assert first.same_as == second.same_as


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("timeout", "timed out and was killed"),
        ("workspace_full", "/workspace is over its limit"),
        ("disk_full", "the disk of this machine is nearly full"),
        ("lost", "the sandbox ended during the command"),
    ],
)
async def test_what_was_ended_from_outside_is_a_failure_and_keeps_its_output(how: str, says: str) -> None:
    result = await call(ended(ended=how, exit_code=137), command="ls")
    assert not result.ok
    assert says in result.content
    assert "hola" in result.content


async def test_truncation_is_told_with_what_was_left_out() -> None:
    result = await call(ended(stdout=Output(b"head", b"tail", 1000)), command="ls")
    assert result.truncated
    assert "truncated: 1000 bytes came" in result.content
    assert "992 bytes left out" in result.content


async def test_bytes_that_are_no_text_do_not_break_a_result() -> None:
    result = await call(ended(stdout=Output(b"\xff\xfe\x00", b"", 3)), command="ls")
    assert result.ok


@pytest.mark.parametrize(("given", "sent"), [(None, b""), ("half \ud83d", b"half ?")])
async def test_what_models_write_as_standard_input_is_taken_as_well_as_it_can_be(
    given: object, sent: bytes
) -> None:
    shell = Recorder(ended())
    assert (await Bash(shell).call({"command": "cat", "stdin": given})).ok
    assert shell.commands[0].stdin == sent


async def test_a_result_is_tainted_where_the_files_are() -> None:
    shell = Recorder(ended())
    assert not (await Bash(shell).call({"command": "cat note"})).tainted
    shell.files_tainted = True
    assert (await Bash(shell).call({"command": "cat note"})).tainted


def test_chats_with_the_same_policy_share_the_description() -> None:
    one, other = (Bash(Recorder(ended()), CommandPolicy(("ls", "git"))) for _ in range(2))
    assert one.spec is other.spec


@pytest.mark.parametrize("open_policy", [False, True])
async def test_both_policies_run_a_line_in_bash_as_it_is(open_policy: bool) -> None:
    shell = Recorder(ended())
    bash = Bash(shell, CommandPolicy(open=open_policy))
    line = ' for i in {1..2}; do echo "$i $(date)" ~ *.py; done # all\n'
    result = await bash.call({"command": line})
    assert shell.commands[0].argv == ("bash", "-c", line)
    assert result.trace is not None
    assert result.trace.argv == ("bash", "-c", line)


def test_only_the_strict_policy_tells_of_a_list() -> None:
    assert "on the list" in Bash(Recorder(ended())).spec.description
    assert "list" not in Bash(Recorder(ended()), CommandPolicy(open=True)).spec.description


# Time limits, background commands and whole outputs


class Running(Recorder):
    """A shell whose commands write, and run until they are let go."""

    def __init__(self) -> None:
        super().__init__(ended())
        self.may_end = trio.Event()
        self.cancelled = 0

    async def run(self, command: Command) -> CommandResult:
        self.commands.append(command)
        command.began("abc")
        command.heard(b"listening\n")
        try:
            await self.may_end.wait()
        except trio.Cancelled:
            self.cancelled += 1
            raise
        command.heard(b"bye\n")
        return ended(exit_code=3)


async def tools_in(
    shell: Recorder, nursery: trio.Nursery, most: int = 2
) -> tuple[Bash, BashOutput, BashStop, list[str]]:
    still: list[str] = []
    bash, output, stop = bash_tools(shell, STRICT, SandboxLimits(background_commands=most), still.append)
    assert isinstance(bash, Bash)
    assert isinstance(output, BashOutput)
    assert isinstance(stop, BashStop)
    bash.run_in(nursery)
    return bash, output, stop, still


@pytest.mark.parametrize(
    ("given", "limit_s", "said"),
    [
        (None, None, False),
        (90, 90, False),
        ("90", 90, False),
        (4000, 600, True),
        (120_000, 600, True),
        (0, None, False),
    ],
)
async def test_a_command_gets_the_time_that_the_model_asks_for(
    given: object, limit_s: float | None, said: bool
) -> None:
    shell = Recorder(ended())
    result = await Bash(shell).call({"command": "sleep 80", "timeout_s": given})
    assert shell.commands[0].timeout_s == limit_s
    assert ("timeout_s was 600" in result.content) is said


@pytest.mark.parametrize("given", ["soon", -3, True, [1]])
async def test_a_wrong_time_limit_is_named(given: object) -> None:
    result = await Bash(Recorder(ended())).call({"command": "ls", "timeout_s": given})
    assert (result.ok, result.content) == (False, "bash takes `timeout_s` as a number of seconds")


async def test_a_background_command_is_looked_after_and_stopped(nursery: trio.Nursery) -> None:
    shell = Running()
    bash, output, stop, still = await tools_in(shell, nursery)
    started = await bash.call({"command": "sleep 100", "background": True})
    assert started.content == "started in the background as 1"
    heard: list[bytes] = []
    first = await output.call_streaming({"id": "1", "wait_s": 5}, heard.append)
    assert first.content.endswith("listening\n")
    assert "1: running for" in first.content
    assert "(no new output)" in (await output.call({"id": 1, "wait_s": 0.05})).content
    stopped = await stop.call({"id": "1"})
    assert stopped.content == "1: stopped\n(no new output)"
    assert (shell.cancelled, still) == (1, []), "the model has stopped it, not the end of the turn"
    assert shell.commands[0].background


async def test_the_end_of_a_background_command_is_told_with_its_exit_code(nursery: trio.Nursery) -> None:
    shell = Running()
    bash, output, _, _ = await tools_in(shell, nursery)
    await bash.call({"command": "sleep 100", "background": True})
    shell.may_end.set()
    result = await output.call({"id": "1"})
    assert result.content == "1: exit code 3\nlistening\nbye\n"
    assert (result.exit_code, result.may_change) == (3, False)


async def test_what_runs_at_the_end_of_a_turn_ends_with_it_and_is_named() -> None:
    shell = Running()
    async with trio.open_nursery() as turn:
        bash, _, _, still = await tools_in(shell, turn)
        await bash.call({"command": "sleep 100", "background": True})
        turn.cancel_scope.cancel()
    assert (shell.cancelled, still) == (1, ["sleep 100"])


async def test_only_so_many_commands_run_in_the_background(nursery: trio.Nursery) -> None:
    bash, output, stop, _ = await tools_in(Running(), nursery)
    for _ in range(2):
        assert (await bash.call({"command": "sleep 100", "background": True})).ok
    refused = await bash.call({"command": "sleep 100", "background": True})
    assert (refused.ok, refused.refused) == (False, True)
    assert "1, 2 run in the background" in refused.content
    await stop.call({"id": "2"})
    assert (await bash.call({"command": "sleep 100", "background": True})).ok
    assert "there are: 1, 3" in (await output.call({"id": "9"})).content


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("sleep 9 & echo hi", True),
        ("(sleep 9 &)", True),
        ("if true; then sleep 9 & fi", True),
        ("sleep 1 & wait", False),
        ("ls >&2 && pwd", False),
        ("echo $((3 & 1)) 'a & b'", False),
    ],
)
async def test_what_an_ampersand_started_is_named_as_ended(line: str, named: bool) -> None:
    result = await Bash(Recorder(ended())).call({"command": line})
    assert ("background=true" in result.content) is named


@pytest.mark.parametrize(
    ("line", "code", "polls"),
    [
        ("sleep 1; cat done.txt", 0, True),
        ("test -f done.txt && echo yes", 1, True),
        ("ls", 0, True),
        ("cat done.txt", 1, True),
        ("cat done.txt", 0, False),
        ("python3 x.py", 1, False),
        ("echo hi", 0, False),
    ],
)
async def test_commands_that_look_whether_something_is_there_are_polls(
    line: str, code: int, polls: bool
) -> None:
    assert (await Bash(Recorder(ended(exit_code=code))).call({"command": line})).may_change is polls


async def test_a_long_output_shows_head_and_tail_with_the_errors_last() -> None:
    out = "".join(f"line {n}\n" for n in range(4000))
    err = "".join(f"warning {n}\n" for n in range(2000)) + "Error: the disk is on fire\n"
    result = await call(
        ended(stdout=Output(out.encode(), b"", len(out)), stderr=Output(err.encode(), b"", len(err))),
        command="cat log",
    )
    assert len(result.content) <= 12_000
    assert result.content.endswith("Error: the disk is on fire\n")
    assert all(text in result.content for text in ("line 0\n", "line 3999\n", "warning 0\n", "left out"))
    assert result.truncated


async def test_a_short_error_output_leaves_the_room_to_the_output() -> None:
    out = "".join(f"line {n}\n" for n in range(4000))
    result = await call(
        ended(stdout=Output(out.encode(), b"", len(out)), stderr=Output(b"E\n", b"", 2)), command="cat log"
    )
    assert 11_000 < len(result.content) <= 12_000
    assert result.content.endswith("error output:\nE\n")


async def test_output_is_kept_whole_as_it_came() -> None:
    class Writes(Recorder):
        async def run(self, command: Command) -> CommandResult:
            for n in range(2000):
                command.heard(b"out %d\n" % n)
                command.heard(b"err %d\n" % n)
            text = b"".join(b"out %d\n" % n for n in range(2000))
            return ended(stdout=Output(text, b"", len(text)))

    heard: list[bytes] = []
    result = await Bash(Writes(ended())).call_streaming({"command": "cat log"}, heard.append)
    assert result.whole_output == b"".join(heard)
    assert result.whole_output.startswith(b"out 0\nerr 0\nout 1\n")
