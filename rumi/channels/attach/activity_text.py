"""Short descriptions of what actors (the parts of a running Rumi) are doing, made from the status dump."""

from collections.abc import Mapping

from rumi.channels.status_dump import Item, is_chat
from rumi.platform.texts.words import in_words
from rumi.texts import Language, gettext


def duration(seconds: float) -> str:
    """Return a duration in its largest two units: `42 s`, `3 min 5 s`, `2 h 10 min`, `4 d 1 h`."""
    whole = int(seconds)
    for size, name, smaller, smaller_name in (
        (86_400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {name} {rest} {smaller_name}" if rest else f"{whole // size} {name}"
    return f"{whole} s"


def works(item: Item) -> bool:
    """Return True if the actor is working, has queued messages, or has a problem."""
    metrics = item["figures"]
    usual = item["state"] == "running" and not item["mailbox"]["depth"] and not item["restarts"]
    return not usual or "error" in metrics or bool(metrics.get("job") if is_chat(item) else item["doing"])


def age_of(item: Item) -> float:
    """Return how long the actor has been working, in seconds.

    For a chat this is the age of its longest running tool call, or of its turn if no tool call runs.
    """
    metrics = item["figures"]
    if is_chat(item):
        tools = metrics.get("tools") or ()
        return float(max((tool["age_s"] for tool in tools), default=metrics.get("age_s", 0.0)))
    return float(item["age_s"] or 0.0) if item["doing"] else 0.0


def activity_of(item: Item, language: Language) -> str:
    """Return the actor's activity with its duration; if the actor is idle, return its last error."""
    words = _chat(item, language) if is_chat(item) else _actor(item, language)
    if words and not (is_chat(item) and "job" not in item["figures"]):
        return words
    error = (
        gettext(language, "last error: {last_error}", last_error=item["last_error"])
        if item["last_error"]
        else ""
    )
    return error or words


def _chat(item: Item, language: Language) -> str:
    metrics = item["figures"]
    if "job" not in metrics:
        history = f"{metrics['history']} " + gettext(language, "in the history")
        parts = [gettext(language, "idle"), history, *filter(None, [metrics.get("folder")])]
        return " · ".join([*parts, metrics["container"]] if metrics["container"] else parts)
    behind = gettext(language, "queued")
    queued = f"{metrics['queued']} {behind} · " if metrics.get("queued") else ""
    return queued + _job(metrics, language)


def _job(metrics: Item, language: Language) -> str:
    age = duration(metrics["age_s"])
    if metrics["question"]:
        waits = gettext(language, "waits for a yes or a no")
        return f"{metrics['turn']} {waits} · {age}"
    tools = sorted(metrics["tools"], key=lambda tool: -tool["age_s"])
    if not tools:
        return f"{metrics['turn']} {in_words(language, metrics['phase'])} · {age}"
    longest = tools[0]
    more = f" (+{len(tools) - 1})" if len(tools) > 1 else ""
    # The age comes first: the column is cut at its end, and the beginning of a long command is enough.
    inside = gettext(language, "in")
    return f"{duration(longest['age_s'])} {inside} {longest['name']}{more} {longest['what']}".rstrip()


def _task(metrics: Item, language: Language) -> str:
    of = gettext(language, "of")
    calls = f"{metrics['calls']} {gettext(language, 'calls')}"
    spent = [calls, duration(metrics["seconds"])] if metrics["seconds"] else []
    state = in_words(language, metrics["state"])
    return " · ".join([f"{metrics['kind']} {of} {metrics['owner']}", state, *spent, metrics["step"]]).rstrip(
        " ·"
    )


def _actor(item: Item, language: Language) -> str:
    if item["doing"] and {"owner", "step"} <= item["figures"].keys():
        return _task(item["figures"], language)
    activity = in_words(language, item["doing"])
    models = item["figures"].get("models")
    if isinstance(models, Mapping):
        return " · ".join([activity, *_budgets(models)])
    # No age if the activity text already has one, nor for several streams, which start one by one.
    timed = " s" not in activity and "streams" not in item["figures"]
    if activity and item["age_s"] is not None and timed:
        return f"{activity}, {duration(item['age_s'])}"
    return activity


def _budgets(models: Mapping[str, Item]) -> list[str]:
    """Return, for each model, how much of its rate limit is left, as its server last reported."""
    parts = []
    for name, model in models.items():
        left = [
            f"{model[kind]['remaining']:.0f}/{model[kind]['limit']:.0f} {kind}"
            for kind in ("requests", "tokens")
            if model[kind]
        ]
        if left:
            parts.append(f"{name} {', '.join(left)}")
    return parts
