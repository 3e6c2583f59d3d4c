"""The bash tool: what reaches the sandbox, and how a result reads."""

import pytest

from rumi.agent.tool import ToolResult
from rumi.agent.tools.bash import Bash
from rumi.sandbox.engine import Command, CommandResult, Output, SandboxError
from rumi.sandbox.policy import CommandPolicy


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
