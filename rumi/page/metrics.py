"""Counts and gauges in Prometheus' text format. No chat, no person and no word of anybody's is in them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from rumi.page.board import BUCKETS_S, Counts

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def metrics(dump: Mapping[str, Any], counts: Counts, windows: int) -> str:
    """All of it, as Prometheus reads it."""
    return "".join(f"{line}\n" for line in _lines(dump, counts, windows))


def _lines(dump: Mapping[str, Any], counts: Counts, windows: int) -> Iterator[str]:
    states, chats, working, mail = _actors(dump["tree"])
    yield from _one("rumi_info", "gauge", "The program.", {f'version="{_quoted(dump["program"])}"': 1})
    yield from _one("rumi_uptime_seconds", "gauge", "Since the process began.", {"": dump["uptime_s"]})
    yield from _one(
        "rumi_actors", "gauge", "Actors and supervisors.", {f'state="{s}"': n for s, n in states.items()}
    )
    yield from _one("rumi_chats", "gauge", "Chats in memory.", {"": chats})
    yield from _one("rumi_chats_working", "gauge", "Chats that work on something.", {"": working})
    yield from _one("rumi_mailbox_messages", "gauge", "Queued in all mailboxes.", {"": mail})
    yield from _one("rumi_page_windows", "gauge", "Browsers that look at the page.", {"": windows})
    sizes = {f'file="{_quoted(name)}"': size for name, size in (dump.get("databases") or {}).items()}
    yield from _one("rumi_database_bytes", "gauge", "Databases.", sizes)
    yield from _one(
        "rumi_turns_total",
        "counter",
        "Turns that ended.",
        {f'reason="{_quoted(reason)}"': n for reason, n in sorted(counts.turns.items())},
    )
    yield from _one(
        "rumi_tool_calls_total",
        "counter",
        "Tool calls that ended.",
        {f'tool="{tool}",ok="{str(ok).lower()}"': n for (tool, ok), n in sorted(counts.tools.items())},
    )
    yield from _one(
        "rumi_restarts_total",
        "counter",
        "Restarts, by the actor below the root or its supervisor.",
        {f'actor="{_quoted(actor)}"': n for actor, n in sorted(counts.restarts.items())},
    )
    yield from _one(
        "rumi_tokens_total",
        "counter",
        "Tokens of turns.",
        {f'kind="{kind}"': n for kind, n in sorted(counts.tokens.items())},
    )
    yield from _one("rumi_model_waits_total", "counter", "Waits for a model.", {"": counts.waits})
    yield from _histogram(counts)


def _histogram(counts: Counts) -> Iterator[str]:
    yield "# HELP rumi_turn_seconds How long turns took."
    yield "# TYPE rumi_turn_seconds histogram"
    total = 0
    for edge in BUCKETS_S:
        total += counts.buckets[edge]
        yield f'rumi_turn_seconds_bucket{{le="{edge:g}"}} {total}'
    total += counts.buckets[float("inf")]
    yield f'rumi_turn_seconds_bucket{{le="+Inf"}} {total}'
    yield f"rumi_turn_seconds_sum {counts.seconds:.3f}"
    yield f"rumi_turn_seconds_count {total}"


def _one(name: str, kind: str, about: str, values: Mapping[str, object]) -> Iterator[str]:
    if values:
        yield f"# HELP {name} {about}"
        yield f"# TYPE {name} {kind}"
    for labels, value in values.items():
        yield f"{name}{{{labels}}} {value}" if labels else f"{name} {value}"


def _actors(tree: Mapping[str, Any]) -> tuple[Counter[str], int, int, int]:
    """How many nodes are in each state, the chats, those at work, and the queued messages."""
    states: Counter[str] = Counter()
    chats = working = mail = 0
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        states[node["state"]] += 1
        mail += node["mailbox"]["depth"]
        waiting.extend(node["children"])
        if node["id"] == "chats":
            chats += len(node["children"])
            working += sum(1 for chat in node["children"] if chat["figures"].get("job"))
    return states, chats, working, mail


def _quoted(text: object) -> str:
    return str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
