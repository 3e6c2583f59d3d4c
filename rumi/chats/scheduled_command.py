"""Commands of schedules and of people: they run in the chat's sandbox without a model.

Such a command is a job of its chat like a turn: it waits for the running turn, a `/stop` ends it, and its
reply is stored with its end.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from typing_extensions import override

from rumi.agent.by_hand import call_by_hand
from rumi.agent.events import TurnEvent, TurnFinished
from rumi.agent.tool import ToolResult
from rumi.agent.tools.background import Heard
from rumi.agent.tools.bash import Bash, run_scheduled
from rumi.agent.tools.output import SHOWN_CHARS, WHOLE_BYTES, in_part
from rumi.chats.jobs import Job
from rumi.chats.services import ChatServices, ChatShell
from rumi.errors import RumiError
from rumi.platform.texts import schedules as schedule_texts
from rumi.platform.texts.translation import error_text
from rumi.platform.untrusted_text import one_line
from rumi.sandbox.engine import HeadTail
from rumi.sandbox.words import CommandRefused
from rumi.store.journal.records import FireOutcome
from rumi.texts import gettext

WHY_CHARS = 200


async def run_command(
    job: Job,
    command: str,
    shell: ChatShell,
    services: ChatServices,
    show: Callable[[Sequence[str]], Awaitable[None]] | None,
) -> TurnFinished:
    """Run a command; return its output, or a silent end if there is none. `show` shows a file to users.

    On cancellation, no process of the command is left.

    Raises:
        RumiError: The command was refused, or could not be run.
    """
    language, message = job.language, job.message
    policy, limits = services.policy_of(message.chat), services.sandbox_limits
    ran = await run_scheduled(shell, policy, limits, command, language)
    if ran.whole_output:
        path = await shell.keep(job.turn, "output.txt", ran.whole_output, shell.tainted)
        if path and show is not None:
            await show((path,))
    if ran.failed:
        job.outcome = FireOutcome("failed", one_line(ran.failed, WHY_CHARS))
        said = schedule_texts.command_failed(language, message.schedule, command, ran.failed, ran.text)
        return TurnFinished("complete", said)
    if not ran.text:
        nothing = gettext(language, "the command printed nothing")
        return TurnFinished("complete", nothing, nothing_new=True)
    return TurnFinished("complete", schedule_texts.command_output(ran.text))


def command_error(job: Job, command: str, error: RumiError) -> TurnFinished:
    """Return the end of a command that could not be run."""
    why = error_text(job.language, error)
    if not job.message.schedule:
        return TurnFinished("complete", f"❌ {why}")
    job.outcome = FireOutcome("failed", one_line(why, WHY_CHARS))
    said = schedule_texts.command_failed(job.language, job.message.schedule, command, why)
    return TurnFinished("complete", said)


class _ByHand(Bash):
    """The `bash` tool for a person; keeps the whole output in the order in which it comes."""

    def __init__(self, shell: ChatShell, services: ChatServices, chat: str, output: HeadTail) -> None:
        super().__init__(shell, services.policy_of(chat), services.sandbox_limits)
        self._output = output

    @override
    async def call_streaming(self, arguments: Mapping[str, object], heard: Heard) -> ToolResult:
        def both(piece: bytes) -> None:
            self._output.add(piece)
            heard(piece)

        return await super().call_streaming(arguments, both)


async def run_by_hand(
    job: Job, command: str, shell: ChatShell, services: ChatServices, watch: Callable[[TurnEvent], None]
) -> TurnFinished:
    """Run a command that a person typed; return its output and, if it failed, how it ended.

    Policy, limits and events are those of a call of the `bash` tool, with the longest time that a model may
    give a command. On cancellation, no process of the command is left; its output so far is in the job.

    Raises:
        RumiError: The command could not be run.
    """
    language, chat = job.language, job.message.chat
    timeout_s = services.sandbox_limits.max_timeout_s
    try:
        services.policy_of(chat).parse(command)
        refused = ""
    except CommandRefused as refusal:
        refused = error_text(language, refusal)
    job.output = HeadTail(WHOLE_BYTES)
    tool = _ByHand(shell, services, chat, job.output)
    result = await call_by_hand(tool, command, timeout_s, language, watch)
    if refused:
        return TurnFinished("complete", f"❌ {refused}")
    output = job.output.output()
    path = ""
    if output.truncated or len(output.text()) > SHOWN_CHARS:
        path = await shell.keep(job.turn, "output.txt", output.content, shell.tainted)
    return TurnFinished("complete", _said(job, result, timeout_s, path))


def output_so_far(job: Job) -> str:
    """Return the beginning and the end of what the job's command has printed, as code; empty without any."""
    text = "" if job.output is None else job.output.output().text()
    return schedule_texts.command_output(in_part(text.rstrip("\n"), SHOWN_CHARS)) if text.strip() else ""


def _said(job: Job, result: ToolResult, timeout_s: float, path: str) -> str:
    language = job.language
    parts = [output_so_far(job)]
    if path:
        parts.append(gettext(language, "All of it: {path}", path=path))
    late = result.duration_ms is not None and result.duration_ms >= 1000 * timeout_s
    if not result.ok and late:
        why = gettext(language, "it took longer than {seconds} s and was killed", seconds=f"{timeout_s:g}")
        parts.append(f"❌ {why}")
    elif not result.ok:
        why, _, _ = (result.advice or str(result.content)).partition("\n")
        parts.append(f"❌ {why}")
    elif result.exit_code:
        parts.append(gettext(language, "exit code {code}", code=result.exit_code))
    elif not parts[0]:
        parts.append(gettext(language, "(no output)"))
    return "\n\n".join(filter(None, parts))
