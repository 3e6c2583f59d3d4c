"""Replies of a chat, for all channels."""

from collections.abc import Callable, Collection, Sequence
from typing import Final, Literal, TypeAlias

from rumi.platform.printable import one_line
from rumi.platform.texts.words import in_words
from rumi.texts import Language, Text, gettext, ngettext, translate

Breaker: TypeAlias = Literal["max_turns", "repeated_call", "consecutive_errors", "timeout", "budget"]


ENDED_CHARS = 100
"""Maximum number of characters of a command that a reply names."""

QUOTED_CHARS = 120
"""Maximum number of characters of a message that a reply quotes."""


def shortened(message: str, most: int = QUOTED_CHARS) -> str:
    """Return a message as a quotation in a reply: on one line, and cut after `most` characters."""
    quoted = " ".join(message.split())
    return quoted if len(quoted) <= most else quoted[: most - 1] + "…"


def busy(language: Language) -> str:
    """Say that the message is rejected, because a turn runs."""
    return gettext(language, "⏳ Already working on something. Wait for it, or send /stop.")


def not_stored_before(language: Language) -> str:
    """Say that the chat cannot begin anew from an earlier message."""
    return gettext(
        language,
        "❌ The earlier message is not stored any more, so nothing was begun from there."
        " Send the text as a new message.",
    )


def queue_full(language: Language, most: int) -> str:
    """Say that the message is rejected, because `most` messages wait already."""
    return gettext(
        language,
        "⏳ The queue is full ({most}), so I did not take this message. Send it again later; "
        "/queue shows and drops what waits.",
        most=most,
    )


def queued(language: Language, position: int, most: int) -> str:
    """Say that the message waits until the running turn ends; at most `most` messages can wait."""
    return gettext(
        language,
        "⏳ Queued ({position} of {most}). It comes after this turn; /queue shows and drops what waits.",
        position=position,
        most=most,
    )


def dropped(language: Language, count: int) -> str:
    """Say how many queued messages were dropped."""
    if count == 1:
        return gettext(language, "1 queued message was dropped.")
    return gettext(language, "{count} queued messages were dropped.", count=count)


def stopped(language: Language) -> str:
    """Say that the turn was stopped."""
    return gettext(language, "⏹ Stopped.")


def nothing_running(language: Language) -> str:
    """Say that no turn runs, so there is nothing to stop."""
    return gettext(language, "Nothing is running.")


def reset(language: Language, facts: int, *, files: bool = False) -> str:
    """Say that the session was reset, how many `facts` were saved first, and whether `files` were deleted."""
    saved = ngettext(language, "📝 Saved {count} fact to memory.", "📝 Saved {count} facts to memory.", facts)
    done = gettext(language, "✨ Session reset: container and history cleared.")
    if files:
        done = gettext(language, "✨ Session reset: container, history and files deleted.")
    return f"{saved}\n{done}" if facts else done


def reset_ends_work(language: Language, files: int, size: str, waits: int) -> str:
    """Ask for confirmation of a reset that stops a turn, drops the queue, and deletes the chat's files."""
    counted = ngettext(language, "{count} file", "{count} files", files)
    if not waits:
        return gettext(
            language,
            "A turn is running. Stop it, and delete this chat's files ({files}, {size}), container and "
            "history? Send yes or no.",
            files=counted,
            size=size,
        )
    waiting = ngettext(language, "{count} message waits", "{count} messages wait", waits)
    return gettext(
        language,
        "A turn is running and {waiting}. Stop it, drop what waits, and delete this chat's files "
        "({files}, {size}), container and history? Send yes or no.",
        waiting=waiting,
        files=counted,
        size=size,
    )


def nothing_deleted(language: Language, *, answered: bool) -> str:
    """Say that nothing was deleted, because the user did not confirm the deletion."""
    if answered:
        return gettext(language, "Nothing was deleted.")
    return gettext(language, "Nothing was deleted: nobody answered.")


def breaker(language: Language, reason: Breaker, max_turns: int) -> str:
    """Say which circuit breaker or limit has ended the turn."""
    return {
        "max_turns": gettext(language, "⚠️ Reached the maximum of {max_turns} turns.", max_turns=max_turns),
        "repeated_call": gettext(language, "⚠️ Detected a loop and stopped."),
        "consecutive_errors": gettext(language, "⚠️ Too many errors in a row."),
        "timeout": gettext(language, "⚠️ This turn ran out of time."),
        "budget": gettext(language, "⚠️ All allowed tokens are used."),
    }[reason]


def go_on(language: Language) -> str:
    """Say how to go on with a turn that a limit has ended."""
    return gettext(language, "Send /continue to go on.")


def model_failed(language: Language, why: str) -> str:
    """Say that the model could not be reached, or refused the request."""
    why = why.strip().rstrip(".")
    return gettext(language, "❌ The model did not answer: {why}. Send /retry to try again.", why=why)


def nothing_new(language: Language, why: str, failed: Sequence[str] = ()) -> str:
    """Say that a scheduled turn has nothing to tell, why, and which of its calls have failed."""
    said = gettext(language, "Nothing new: {why}", why=why)
    if not failed:
        return said
    lines = "\n".join(f"- {one}" for one in failed)
    return f"{said}\n\n{gettext(language, '⚠️ These steps failed:')}\n{lines}"


def model_stopped(language: Language, why: str) -> str:
    """Say that the answer before this text is incomplete, because the model or its server failed."""
    why = why.strip().rstrip(".")
    return gettext(language, "❌ The answer is incomplete: {why}. Send /retry to try again.", why=why)


def ended_oddly(language: Language, reason: str) -> str:
    """Say that the server gave a reason for the answer's end that Rumi does not know."""
    return gettext(
        language,
        "⚠️ The model's server ended this answer with “{reason}”, so it may be incomplete.",
        reason=shortened(reason),
    )


def not_yours(language: Language) -> str:
    """Say that only the person who asked for a turn, or one with the same role, can repeat or continue it."""
    return gettext(
        language,
        "🔒 Somebody with another role asked for that: only they can retry it. Ask in your own words.",
    )


def crashed(language: Language) -> str:
    """Say that the chat crashed during a turn."""
    return gettext(language, "❌ Something failed and was restarted. Send /retry to try again.")


def restarted(language: Language, message: str) -> str:
    """Say that Rumi was restarted while a turn worked on the message."""
    quoted = shortened(message)
    return gettext(
        language, "⚠️ I was restarted while working on: “{quoted}”. Send /retry to try again.", quoted=quoted
    )


def restarted_in_call(language: Language, message: str, call: str) -> str:
    """Say that a restart interrupted a turn within a call that may have taken effect."""
    in_call = gettext(
        language,
        "This was running: `{call}`. I can't know whether it took effect: /retry runs it all again.",
        call=call,
    )
    return f"{restarted(language, message)}\n\n{in_call}"


def went_on(language: Language) -> str:
    """Say below an answer that a restart interrupted the turn, which went on afterwards."""
    return gettext(language, "⟳ I was restarted while I worked on this, and went on where I had stopped.")


def goes_on_later(language: Language) -> str:
    """Say that Rumi ends, and that the next process goes on with the turn."""
    return gettext(language, "⏸ I am being restarted. I continue with this afterwards.")


def lost_command(language: Language, command: str) -> str:
    """Say that a crash or restart prevented a command from completing."""
    return gettext(language, "⚠️ I was restarted before {command} was done. Send it again.", command=command)


def not_confirmed(text: str, why: str) -> str:
    """Return a text followed by a warning: `why` is the reason that a part of the text is not confirmed."""
    return f"{text}\n⚠️ {why}"


def unknown_command(language: Language, name: str, meant: str = "") -> str:
    """Say that a command is unknown. Suggest the command `meant`, if it is not empty."""
    perhaps = gettext(language, "Did you mean {meant}? ", meant=meant) if meant else ""
    return gettext(
        language,
        "I don't know the command {name}. {perhaps}/help lists those that I know.",
        name=name,
        perhaps=perhaps,
    )


def not_yet(language: Language, name: str) -> str:
    """Say that this version does not support a command."""
    return gettext(language, "{name} does nothing in this version yet.", name=name)


def greeting(language: Language) -> str:
    """Return the greeting of a chat."""
    return gettext(
        language,
        "Hello, I am Rumi. Ask me for something and I do it in a sandbox: files, commands, sums. "
        "/help lists the commands.",
    )


_COMMANDS: tuple[tuple[str, Text], ...] = (
    ("/start", Text("says hello")),
    ("/help", Text("this help")),
    ("/stop", Text("stops what I am doing; `/stop all` also drops what waits, and stops other chats")),
    ("/queue", Text("what waits for its turn; `/queue drop 1` drops the first")),
    ("/new", Text("new session; the old one stays stored")),
    ("/sessions", Text("earlier sessions; `/sessions 3` reopens one")),
    ("/compact", Text("makes room: a summary replaces the conversation; `/compact what to keep`")),
    ("/context", Text("what fills the context")),
    ("/reset", Text("clears the session; `/reset files` deletes the files as well")),
    ("/status", Text("what I am doing")),
    ("/retry", Text("runs the last unfinished message again")),
    ("/continue", Text("continues a turn that reached a limit")),
    ("/undo", Text("undoes the last turn, with its files")),
    ("/diff", Text("what I changed in the folder that I work on; `/diff FILE` shows one file")),
    ("/apply", Text("brings the changes into the folder; `/apply FILE` those of a file")),
    ("/discard", Text("drops the changes; `/discard FILE` those of a file")),
    ("/memory", Text("what I know about you")),
    ("/recall", Text("finds what was said: `/recall QUERY`")),
    ("/forget_everything", Text("deletes for good everything I know about you")),
    ("/skills", Text("what I have learned to do")),
    ("/research", Text("researches a question on the web while we talk")),
    ("/tasks", Text("the tasks in the background; `/stop 7` stops number 7")),
    ("/bots", Text("the bots; `/stop NAME` stops one")),
    ("/bot", Text("a goal for a bot: `/bot NAME GOAL`")),
    ("/wake", Text("wakes a bot: `/wake NAME`")),
    ("/usage", Text("what was used, and the budgets")),
    ("/allow", Text("allows more today: `/allow 2 USD today`")),
    ("/remind", Text("reminds you: `/remind tomorrow 09:00: TEXT`")),
    ("/schedules", Text("the reminders; `pause|resume|run|edit|delete N` changes one")),
    ("/snooze", Text("puts off the last reminder: `/snooze 10 min`, `/snooze tomorrow`")),
    ("/timezone", Text("your time zone: `/timezone Europe/Madrid`")),
    ("/list", Text("lists that this chat shares: `/list shopping milk, bread`")),
    ("/voice", Text("speaks answers as well: `/voice on`, `/voice always`, `/voice off`")),
    (
        "/yes",
        Text("approves pending actions: `/yes 1`; 1 and not 2: `/yes 1 no 2`; 1 each time: `/yes 1 always`"),
    ),
    ("/no", Text("refuses it: `/no 1`")),
    ("/whoami", Text("who you are, your role and your budget")),
    ("/people", Text("in a group: who may talk to me, and who has")),
    ("/share", Text("in a group: shares a fact of yours, `/share KEY`")),
    ("/unshare", Text("takes it back: `/unshare KEY`")),
)


USUAL: Final = ("help", "stop", "new", "retry", "undo", "status", "memory", "skills", "reset", "start")
"""The commands that `/help` always shows, and that a channel's menu has."""

_GROUPS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (
        Text("Talk"),
        (
            *("help", "stop", "queue", "new", "sessions", "retry", "continue", "undo", "compact", "context"),
            *("status", "reset", "voice", "start"),
        ),
    ),
    (Text("Work on a folder"), ("diff", "apply", "discard")),
    (Text("Remember"), ("memory", "recall", "list", "share", "unshare", "forget_everything")),
    (
        Text("Automate"),
        (
            *("remind", "schedules", "snooze", "timezone", "research", "tasks"),
            *("bots", "bot", "wake", "skills", "yes", "no"),
        ),
    ),
    (Text("Administer"), ("usage", "allow", "whoami", "people")),
)
"""The groups of `/help all`; a command of no group comes after them."""


def commands(language: Language) -> list[tuple[str, str]]:
    """Return the chat commands, each with its description."""
    return [(name, translate(language, does)) for name, does in _COMMANDS]


def menu(language: Language) -> list[tuple[str, str]]:
    """Return the usual chat commands, each with its description."""
    all_ = dict(commands(language))
    return [(f"/{name}", all_[f"/{name}"]) for name in USUAL]


def help_text(
    language: Language, may: Callable[[str], bool] = lambda name: True, with_content: Collection[str] = ()
) -> str:
    """Return the usual chat commands that the person `may` use, and those that have something to show now."""
    first = gettext(language, "Write what you need in your own words. Commands:")
    all_ = [(name, does) for name, does in commands(language) if may(name.removeprefix("/"))]
    shown = [row for row in menu(language) if row in all_]
    shown += [row for row in all_ if row[0].removeprefix("/") in with_content and row not in shown]
    more = gettext(language, "`/help all` shows all commands.")
    return "\n".join([first, "", *map(_help_line, shown), "", more])


def help_of_all(language: Language, may: Callable[[str], bool] = lambda name: True) -> str:
    """Return all chat commands that the person `may` use, in groups."""
    left = {name: does for name, does in commands(language) if may(name.removeprefix("/"))}
    parts = []
    for title, names in _GROUPS:
        rows = [(f"/{name}", left.pop(f"/{name}")) for name in names if f"/{name}" in left]
        if rows:
            parts.append("\n".join([f"**{translate(language, title)}**", *map(_help_line, rows)]))
    if left:
        parts.append("\n".join([f"**{gettext(language, 'More')}**", *map(_help_line, left.items())]))
    return "\n\n".join(parts)


def _help_line(row: tuple[str, str]) -> str:
    name, does = row
    return f"- `{name}`: {does}"


def chat_status(
    language: Language,
    *,
    chat: str,
    phase: str | None,
    seconds: float,
    container: str,
    messages: int,
    queued: int = 0,
    steps: tuple[int, int] = (0, 0),
) -> str:
    """Describe one chat in two lines. `phase` is None if no turn runs. Tool calls are not translated.

    `steps` are the numbers of done steps and of all steps of the todo list.
    """
    phase = phase and in_words(language, phase)
    activity = (
        gettext(language, "idle")
        if phase is None
        else gettext(language, "working for {seconds} s: {phase}", seconds=f"{seconds:.0f}", phase=phase)
    )
    if queued:
        activity += gettext(language, "; {queued} queued", queued=queued)
    if steps[1]:
        activity += gettext(language, "; {done} of {all} steps done", done=steps[0], all=steps[1])
    box = container or gettext(language, "none")
    return gettext(
        language,
        "Chat {chat}: {activity}.\nContainer: {box}. Messages in the history: {messages}.",
        chat=chat,
        activity=activity,
        box=box,
        messages=messages,
    )


def no_key(language: Language, variable: str = "GROQ_API_KEY") -> str:
    """Say that the API key for the configured model is missing."""
    return gettext(
        language,
        "No {variable}: the demo (offline) answers, which is no language model. “help” says what it knows.",
        variable=variable,
    )


def ended_with_turn(language: Language, commands: Sequence[str]) -> str:
    """Say which background commands were ended because the turn ended."""
    names = ", ".join(f"`{one_line(command)[:ENDED_CHARS]}`" for command in commands)
    return gettext(language, "⏹ Ended with the turn: {commands}", commands=names)
