"""Texts of the web page, and messages about the page that the server prints to its terminal."""

from rumi.texts import Language, Text, gettext, translate


def page_link(language: Language, link: str, minutes: int) -> str:
    """Return the line with the page's login link, and how long the link is valid."""
    return gettext(
        language,
        "The page: {link}\n(works once, for {minutes} minutes; asking for the page later prints another)",
        link=link,
        minutes=minutes,
    )


def page_is_open(language: Language, url: str) -> str:
    """Warn that other machines can reach the web page without TLS."""
    return gettext(
        language,
        "⚠️ The page {url} can be reached from other machines, without TLS: everyone on the network "
        "path can read it and use your session. Better: --web 127.0.0.1:8080 and ssh -L "
        "8080:127.0.0.1:8080 SERVER.",
        url=url,
    )


def listens(language: Language, url: str) -> str:
    """Say at which URLs health checks and metrics are served."""
    return gettext(language, "Health and metrics: {url}/healthz, {url}/readyz, {url}/metrics", url=url)


def listener_is_open(language: Language) -> str:
    """Warn that other machines can reach the listener for health checks and metrics."""
    return gettext(
        language,
        "⚠️ Other machines can reach this address, without TLS: they can read the metrics. Better: "
        "127.0.0.1 behind a load balancer.",
    )


_WORDS: dict[str, Text] = {
    "actor": Text("actor"),
    "answer_failed": Text("That answer does not count any more."),
    "asks": Text("waits for your yes"),
    "assistant": Text("Rumi"),
    "attach": Text("Attach files"),
    "began": Text("began"),
    "bot": Text("bot"),
    "bot_queued": Text("waits for a place"),
    "bot_running": Text("at work"),
    "bot_sleeping": Text("sleeps"),
    "bots": Text("Bots"),
    "budget": Text("budget"),
    "chat": Text("chat"),
    "chat_id_hint": Text("Up to 64 letters, digits, - and _"),
    "chat_title": Text("Title"),
    "chats": Text("Chats"),
    "chats_line": Text("{work} at work, {memory} in memory"),
    "chosen": Text("Files of the next message"),
    "closed": Text("Closed"),
    "closed_text": Text(
        "To come in you need the link in the terminal where Rumi runs. It works once, and not for "
        "long; where it no longer works, there is a new one in that terminal now."
    ),
    "connected": Text("live"),
    "connecting": Text("connecting…"),
    "copied": Text("Copied"),
    "copy": Text("Copy"),
    "copy_answer": Text("Copy the answer"),
    "copy_code": Text("Copy the block"),
    "doing": Text("doing"),
    "earlier": Text("Earlier messages"),
    "ending": Text("Rumi is ending and takes no more messages."),
    "enter": Text("Come in"),
    "exit": Text("exit {code}"),
    "failed": Text("failed"),
    "files": Text("Files"),
    "folder_up": Text("Up"),
    "found": Text("Found"),
    "gave_up": Text("gave up"),
    "history": Text("history"),
    "idle": Text("idle"),
    "latest": Text("latest"),
    "log": Text("Conversation"),
    "logout": Text("Log out"),
    "lost": Text("no connection; trying again…"),
    "mail": Text("mail"),
    "message": Text("Message"),
    "message_hint": Text("Enter sends · Shift-Enter new line · Esc stops"),
    "model_calls": Text("{count} model calls"),
    "new_chat": Text("New chat"),
    "new_session": Text("— another session —"),
    "no": Text("No"),
    "no_chats": Text("No chat in memory."),
    "no_files": Text("This chat has no files."),
    "no_picture": Text("This is no picture that can be shown."),
    "no_restarts": Text("No restart in the last hour."),
    "no_turns": Text("No turn yet."),
    "number": Text("no."),
    "iterations": Text("iterations"),
    "kind": Text("kind"),
    "what": Text("what"),
    "when": Text("when"),
    "not_copied": Text("Could not copy"),
    "not_now": Text("The chat is not there now."),
    "not_sent": Text("Not sent: {why}"),
    "not_complete": Text("not complete"),
    "not_uploaded": Text("{name} was not uploaded: {why}"),
    "nothing_found": Text("Nothing was found."),
    "nothing_said": Text("Say something: Rumi answers here."),
    "now": Text("now"),
    "older": Text("earlier"),
    "open": Text("Open"),
    "over": Text("session over"),
    "over_text": Text("The session is over. There is a new link in the terminal where Rumi runs."),
    "picture": Text("Show the picture"),
    "preview": Text("Preview of {name}"),
    "queued": Text("{count} queued"),
    "reason": Text("end"),
    "refresh": Text("Refresh"),
    "remove_file": Text("Remove {name}"),
    "renewed": Text("renewed"),
    "rename": Text("Rename"),
    "restarted": Text("restarted"),
    "restarts": Text("Restarts"),
    "restart_in_all": Text("1 restart in the last hour"),
    "restarts_about": Text("a minute, the last hour"),
    "restarts_in_all": Text("{count} restarts in the last hour"),
    "schedule_active": Text("active"),
    "schedule_bot": Text("bot"),
    "schedule_done": Text("done"),
    "schedule_paused": Text("paused"),
    "schedule_research": Text("research"),
    "schedule_text": Text("reminder"),
    "schedule_turn": Text("turn"),
    "schedules": Text("Schedules"),
    "schedules_line": Text("{active} active, {paused} paused"),
    "search": Text("Search the chats"),
    "send": Text("Send"),
    "skip": Text("Skip to the message"),
    "spending": Text("Spending"),
    "spent_month": Text("this month"),
    "spent_today": Text("today"),
    "state": Text("state"),
    "step_in_all": Text("1 step"),
    "steps": Text("Steps"),
    "steps_in_all": Text("{count} steps"),
    "storage_away": Text("The database does not answer"),
    "storage_failing": Text("The disk refuses to write"),
    "storage_full": Text("The disk is full"),
    "storage_locked": Text("Another program locks the database"),
    "storage_replaced": Text("state.db was deleted or replaced"),
    "stop": Text("Stop"),
    "stop_all": Text("Stop everything"),
    "stop_all_sure": Text("All turns, tasks, bots and schedules? Press again"),
    "stopped_at": Text("ended: {reason}"),
    "talk": Text("Talk"),
    "title": Text("Rumi"),
    "too_many": Text("Too many windows are open."),
    "tokens": Text("tokens"),
    "too_many_files": Text("At most {count} files in a message."),
    "took": Text("took"),
    "tools": Text("calls"),
    "tree": Text("Supervision tree"),
    "turn": Text("turn"),
    "turn_in_all": Text("1 turn, {most}"),
    "turn_times": Text("Turn times"),
    "turn_times_about": Text("the last 60"),
    "turns": Text("Recent turns"),
    "turns_in_all": Text("{count} turns; median {median}, longest {most}"),
    "up": Text("up {age}"),
    "uploading": Text("uploading…"),
    "used": Text("used"),
    "verdict_expired": Text("No answer: no."),
    "verdict_no": Text("No."),
    "verdict_nobody": Text("Nobody could answer: no."),
    "verdict_yes": Text("Yes."),
    "whole_question": Text("The whole question"),
    "worker_ended": Text("{name}: ended"),
    "worker_leaving": Text("{name}: leaving"),
    "worker_running": Text("{name}: {partitions} partitions, {turns} turns"),
    "working": Text("working"),
    "yes": Text("Yes"),
    "you": Text("You"),
}


def page_words(language: Language) -> dict[str, str]:
    """Return the texts of the web page by name. The page's script replaces the placeholders in braces."""
    return {name: translate(language, text) for name, text in _WORDS.items()}
