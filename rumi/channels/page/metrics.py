"""Counts and gauges in Prometheus' text format. No chat, no person and no word of anybody's is in them."""

import os
import resource
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from rumi.agent import Reason
from rumi.channels.page.board import BUCKETS_S, Counts

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def metrics(dump: Mapping[str, Any], counts: Counts, windows: int) -> str:
    """Return all counts and gauges, as Prometheus reads them. docs/page.md lists the names."""
    return "".join(f"{line}\n" for line in _lines(dump, counts, windows))


def _lines(dump: Mapping[str, Any], counts: Counts, windows: int) -> Iterator[str]:
    version = {f'version="{_quoted(dump["program"])}"': 1}
    yield from _family("rumi_info", "gauge", "The program's version; the value is always 1.", version)
    yield from _process(dump)
    yield from _one("rumi_page_windows", "gauge", "Browsers that look at the page.", windows)
    reasons = {str(reason): counts.turns[reason] for reason in get_args(Reason)}
    yield from _family(
        "rumi_turns_total",
        "counter",
        "Turns that ended, by how.",
        {f'reason="{reason}"': n for reason, n in reasons.items()},
    )
    yield from _family(
        "rumi_tool_calls_total",
        "counter",
        "Tool calls that ended, by tool, and whether they worked.",
        {f'tool="{tool}",ok="{str(ok).lower()}"': n for (tool, ok), n in sorted(counts.tools.items())},
    )
    yield from _family(
        "rumi_restarts_total",
        "counter",
        "Restarts, by the actor below the root that restarted or holds who did.",
        {f'actor="{_quoted(actor)}"': n for actor, n in sorted(counts.restarts.items())},
    )
    tokens = {f'kind="{kind}"': counts.tokens[kind] for kind in ("prompt", "completion")}
    yield from _family("rumi_tokens_total", "counter", "Tokens that turns have used.", tokens)
    yield from _one(
        "rumi_cached_tokens_total",
        "counter",
        "Tokens of prompts that model servers had in their caches.",
        counts.tokens["cached"],
    )
    yield from _one(
        "rumi_model_waits_total",
        "counter",
        "Waits before a model answered: limits and retries.",
        counts.waits,
    )
    yield from _histogram(counts)
    yield from _tree(dump)


def _tree(dump: Mapping[str, Any]) -> Iterator[str]:
    states, chats, working, mail = _actors(dump["tree"])
    yield from _family(
        "rumi_actors",
        "gauge",
        "Actors and supervisors, by state.",
        {f'state="{_quoted(state)}"': n for state, n in sorted(states.items())},
    )
    yield from _one("rumi_chats", "gauge", "Chats in memory.", chats)
    yield from _one("rumi_chats_working", "gauge", "Chats that work on something.", working)
    failed = len(dump.get("failed") or {})
    yield from _one("rumi_chats_failed", "gauge", "Chats that have reached their restart limit.", failed)
    yield from _one("rumi_mailbox_messages", "gauge", "Messages queued in all mailboxes.", mail)
    if dump.get("outbox") is not None:
        yield from _one("rumi_outbox_replies", "gauge", "Replies that nobody has yet.", dump["outbox"])
    sizes = {f'file="{_quoted(name)}"': size for name, size in (dump.get("databases") or {}).items()}
    yield from _family("rumi_database_bytes", "gauge", "Databases, what is not yet merged included.", sizes)


def _histogram(counts: Counts) -> Iterator[str]:
    name = "rumi_turn_duration_seconds"
    yield f"# HELP {name} How long turns took, waits for a yes included."
    yield f"# TYPE {name} histogram"
    total = 0
    for edge in BUCKETS_S:
        total += counts.buckets[edge]
        yield f'{name}_bucket{{le="{edge:g}"}} {total}'
    total += counts.buckets[float("inf")]
    yield f'{name}_bucket{{le="+Inf"}} {total}'
    yield f"{name}_sum {counts.seconds:.3f}"
    yield f"{name}_count {total}"


def _process(dump: Mapping[str, Any]) -> Iterator[str]:
    """Yield the process's figures under the names that all of Prometheus' own clients use."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    began = time.time() - dump["uptime_s"]
    with open("/proc/self/statm", encoding="ascii") as statm:
        pages = int(statm.read().split()[1])
    descriptors = len(os.listdir("/proc/self/fd")) - 1
    yield from _one("process_start_time_seconds", "gauge", "When it began, since 1970.", f"{began:.0f}")
    yield from _one(
        "process_cpu_seconds_total", "counter", "Processor time.", f"{used.ru_utime + used.ru_stime:.2f}"
    )
    yield from _one(
        "process_resident_memory_bytes", "gauge", "Memory in use.", pages * resource.getpagesize()
    )
    yield from _one("process_open_fds", "gauge", "Open file descriptors.", descriptors)


def _one(name: str, kind: str, about: str, value: object) -> Iterator[str]:
    yield from _family(name, kind, about, {"": value})


def _family(name: str, kind: str, about: str, values: Mapping[str, object]) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"
    for labels, value in values.items():
        yield f"{name}{{{labels}}} {value}" if labels else f"{name} {value}"


def _actors(tree: Mapping[str, Any]) -> tuple[Counter[str], int, int, int]:
    """Return how many nodes are in each state, the chats, those at work, and the queued messages."""
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
