"""Commands of schedules: they run in the chat's sandbox instead of a turn, and no model is called.

Such a command is a job of its chat like a turn: it waits for the running turn, a `/stop` ends it, and its
reply is stored with its end.
"""

from collections.abc import Awaitable, Callable, Sequence

from rumi.agent.events import TurnFinished
from rumi.agent.tools.bash import run_scheduled
from rumi.chats.jobs import Job
from rumi.chats.services import ChatServices, ChatShell
from rumi.errors import RumiError
from rumi.platform.texts import schedules as schedule_texts
from rumi.platform.texts.translation import error_text
from rumi.platform.untrusted_text import one_line
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
    job.outcome = FireOutcome("failed", one_line(why, WHY_CHARS))
    said = schedule_texts.command_failed(job.language, job.message.schedule, command, why)
    return TurnFinished("complete", said)
