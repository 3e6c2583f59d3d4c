"""The status dump as OpenMetrics 1.0 text. It identifies no chat or person, and contains no message text."""

import os
import resource
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, Literal, TypeAlias

from prometheus_client import metrics_core as families
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from rumi.channels.status_dump import Item, below, chats, rows, top, trouble

_encode, CONTENT_TYPE = choose_encoder("application/openmetrics-text")

Kind: TypeAlias = Literal["gauge", "counter"]
Labels: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Figure:
    """A metric whose value is a number that a child of the root supervisor reports in its `metrics`.

    `path` is the actor's id, followed by the keys that lead to the number. If the actor or the number is
    missing, the metric is omitted.
    """

    path: tuple[str, ...]
    name: str
    kind: Kind
    about: str


FIGURES: Final = (
    Figure(("journal", "waiting"), "rumi_journal_waiting", "gauge", "Requests that wait for the disk."),
    Figure(("models", "running"), "rumi_model_calls_running", "gauge", "Model calls that run."),
    Figure(("models", "waiting"), "rumi_model_calls_waiting", "gauge", "Model calls that wait for a permit."),
    Figure(
        ("budgets", "total", "calls"),
        "rumi_model_calls",
        "counter",
        "Model calls that were counted, all kinds.",
    ),
    Figure(
        ("budgets", "total", "prompt_tokens"), "rumi_model_prompt_tokens", "counter", "Tokens of all prompts."
    ),
    Figure(
        ("budgets", "total", "completion_tokens"),
        "rumi_model_completion_tokens",
        "counter",
        "Tokens of all replies of models.",
    ),
    Figure(
        ("budgets", "total", "usd"),
        "rumi_model_spending_usd",
        "counter",
        "Price of all model calls with a known price, in USD.",
    ),
    Figure(("fetcher", "fetching"), "rumi_fetches_running", "gauge", "Web pages that are fetched."),
    Figure(("sender", "waiting"), "rumi_telegram_replies_waiting", "gauge", "Replies that wait to be sent."),
    Figure(("sender", "sent"), "rumi_telegram_sent", "counter", "Messages and files that were sent."),
    Figure(
        ("sender", "undeliverable"), "rumi_telegram_undeliverable", "counter", "Replies that were abandoned."
    ),
    Figure(
        ("sender", "retried"), "rumi_telegram_retries", "counter", "Failed attempts to send a final reply."
    ),
    Figure(
        ("sender", "limited"),
        "rumi_telegram_limited",
        "counter",
        "Answers of Telegram that asked the bot to wait (429).",
    ),
    Figure(
        ("sender", "waits"),
        "rumi_telegram_waits",
        "counter",
        "Replies that waited for Telegram's rate limits.",
    ),
    Figure(
        ("sender", "waited_s"),
        "rumi_telegram_wait_seconds",
        "counter",
        "How long replies waited for Telegram's rate limits.",
    ),
    *(
        Figure((actor, key), f"rumi_telegram_updates_{key}", "counter", about)
        for actor in ("poller", "webhook")
        for key, about in (
            ("stored", "Updates of Telegram that were stored."),
            ("repeated", "Updates of Telegram that were known already."),
            ("refused", "Updates of Telegram that could not be stored, and come again."),
        )
    ),
    Figure(("webhook", "waiting"), "rumi_telegram_updates_waiting", "gauge", "Updates that Telegram keeps."),
    Figure(("control", "connections"), "rumi_control_connections", "gauge", "Clients of the control socket."),
    *(
        Figure(("triggers", key), f"rumi_trigger_events_{key}", "counter", about)
        for key, about in (
            ("taken", "Events of triggers that were stored."),
            ("repeated", "Events of triggers that were known already."),
            ("refused", "Requests to triggers that did not prove that they know the secret."),
            ("limited", "Events of triggers that were refused because too many came."),
            ("not_stored", "Events of triggers that could not be stored."),
        )
    ),
    Figure(("schedules", "active"), "rumi_schedules_active", "gauge", "Schedules that will fire."),
)
"""Metrics that actors report themselves. Each new number of an actor needs an entry here."""


def metrics(dump: Item) -> bytes:
    """Return all metrics of a status dump as OpenMetrics text. docs/operations.md lists their names."""
    return _encode(_Dump(dump))


@dataclass(frozen=True, slots=True)
class _Dump(Collector):
    """Collects from one status dump, in no registry: the process keeps no second set of counters."""

    dump: Item

    def collect(self) -> Iterator[families.Metric]:
        dump = self.dump
        yield families.InfoMetricFamily("rumi", "The program's version.", {"version": dump["program"]})
        yield from _process(dump)
        yield from _counts(dump["counts"])
        yield from _tree(dump)
        actors = {id: node["figures"] for id, node in top(dump).items()}
        for figure in FIGURES:
            if samples := list(_samples(actors, figure.path)):
                yield _family(figure.name, figure.kind, figure.about, samples)


def _samples(actors: Mapping[str, Any], path: Sequence[str]) -> Iterator[tuple[Labels, float]]:
    """For each bot's actor, yield the number at `path`, labelled with the bot's name if the bot has a name.

    The actor id of an additional bot ends with the bot's name.
    """
    for id in actors:
        name, _, bot = id.partition("-")
        value = _at(actors, (id, *path[1:])) if name == path[0] else None
        if value is not None:
            yield ({"bot": bot} if bot else {}), value


def _at(actors: Mapping[str, Any], path: Iterable[str]) -> float | None:
    """Return the number that the keys in `path` lead to; None if they lead to no number."""
    found: Any = actors
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, int | float) else None


def _counts(counts: Mapping[str, Any]) -> Iterator[families.Metric]:
    yield _family(
        "rumi_turns",
        "counter",
        "Turns that ended, by how.",
        [({"reason": reason}, n) for reason, n in counts["turns"].items()],
    )
    yield _family(
        "rumi_tool_calls",
        "counter",
        "Tool calls that ended, by tool, and whether they worked.",
        [({"tool": tool["tool"], "ok": str(tool["ok"]).lower()}, tool["calls"]) for tool in counts["tools"]],
    )
    yield _family(
        "rumi_restarts",
        "counter",
        "Restarts, by the actor below the root that restarted or holds the one that did.",
        [({"actor": actor}, n) for actor, n in counts["restarts"].items()],
    )
    tokens = [({"kind": kind}, counts["tokens"][kind]) for kind in ("prompt", "completion")]
    yield _family("rumi_tokens", "counter", "Tokens that turns have used.", tokens)
    yield _one(
        "rumi_cached_tokens",
        "counter",
        "Tokens of prompts that model servers had in their caches.",
        counts["tokens"]["cached"],
    )
    yield _one(
        "rumi_model_waits", "counter", "Waits before a model answered: limits and retries.", counts["waits"]
    )
    buckets = zip(counts["turn_buckets"], accumulate(counts["turn_buckets"].values()), strict=True)
    about = "How long turns took, waits for a yes included."
    yield families.HistogramMetricFamily(
        "rumi_turn_duration_seconds", about, list(buckets), counts["turn_seconds"]
    )


def _tree(dump: Item) -> Iterator[families.Metric]:
    states = Counter(node["state"] for node in _every(dump["tree"]))
    yield _family(
        "rumi_actors",
        "gauge",
        "Actors and supervisors, by state.",
        [({"state": state}, n) for state, n in sorted(states.items())],
    )
    yield _family(
        "rumi_mailbox_messages",
        "gauge",
        "Messages queued in mailboxes, by the actor below the root that has them or holds the one that does.",
        [
            ({"actor": id}, sum(descendant["mailbox"]["depth"] for descendant in _every(node)))
            for id, node in sorted(top(dump).items())
        ],
    )
    found, working = chats(dump)
    yield _one("rumi_chats", "gauge", "Chats in memory.", len(found))
    yield _one("rumi_chats_working", "gauge", "Chats that work on something.", working)
    failed = len(dump.get("failed") or {})
    yield _one("rumi_chats_failed", "gauge", "Chats that have reached their restart limit.", failed)
    queued = sum(chat["figures"].get("queued", 0) for chat in found)
    yield _one("rumi_messages_queued", "gauge", "Messages that wait for a turn of their own.", queued)
    yield _one("rumi_messages_pending", "gauge", "Messages without a final reply.", dump["pending"])
    turns = sum(1 for chat in found if chat["figures"].get("job") in ("turn", "retry", "continue", "answer"))
    yield _one("rumi_turns_running", "gauge", "Turns of chats that run.", turns)
    yield _one("rumi_tasks", "gauge", "Tasks that have not ended.", len(below(dump, "tasks")))
    sandboxes = below(dump, "sandboxes")
    held = sum(1 for sandbox in sandboxes if sandbox["figures"].get("container"))
    yield _one("rumi_sandboxes", "gauge", "Sandboxes that have a container.", held)
    browser_views = [page["figures"].get("windows", 0) for page in below(dump, "page")]
    if browser_views:
        yield _one("rumi_page_windows", "gauge", "Browsers that look at the page.", sum(browser_views))
    if dump.get("outbox") is not None:
        yield _one("rumi_outbox_replies", "gauge", "Replies that nobody has yet.", dump["outbox"])
    failing = int(bool(trouble(dump)))
    yield _one("rumi_storage_trouble", "gauge", "1 while state.db cannot be written.", failing)
    sizes = [({"file": name}, size) for name, size in (dump.get("databases") or {}).items()]
    yield _family("rumi_database_bytes", "gauge", "Databases, what is not yet merged included.", sizes)


def _every(tree: Item) -> Iterator[Item]:
    """Yield a node and all of its descendants."""
    return (
        row.what for row in rows(tree, lambda node: (node["children"], "")) if not isinstance(row.what, str)
    )


def _process(dump: Item) -> Iterator[families.Metric]:
    """Yield metrics of the process, with the names that all Prometheus clients use."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    with open("/proc/self/statm", encoding="ascii") as statm:
        pages = int(statm.read().split()[1])
    # Without the descriptor of the listing itself.
    descriptors = len(os.listdir("/proc/self/fd")) - 1
    began, cpu_s = round(time.time() - dump["uptime_s"]), round(used.ru_utime + used.ru_stime, 2)
    yield _one("process_start_time_seconds", "gauge", "When it began, since 1970.", began)
    yield _one("process_cpu_seconds", "counter", "Processor time.", cpu_s)
    memory = pages * resource.getpagesize()
    yield _one("process_resident_memory_bytes", "gauge", "Memory in use.", memory)
    yield _one("process_open_fds", "gauge", "Open file descriptors.", descriptors)
    yield _one("rumi_uptime_seconds", "gauge", "How long the process runs.", dump["uptime_s"])


def _one(name: str, kind: Kind, about: str, value: float) -> families.Metric:
    return _family(name, kind, about, [({}, value)])


def _family(name: str, kind: Kind, about: str, samples: Iterable[tuple[Labels, float]]) -> families.Metric:
    samples = list(samples)
    kinds = {"gauge": families.GaugeMetricFamily, "counter": families.CounterMetricFamily}
    labels = max((list(labels) for labels, _ in samples), key=len, default=[])
    family: families.GaugeMetricFamily | families.CounterMetricFamily = kinds[kind](
        name, about, labels=labels
    )
    for given, value in samples:
        family.add_metric([str(label) for label in given.values()], value)
    return family
