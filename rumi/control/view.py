"""The status dump as a person reads it: a tree that fits into 80 columns."""

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

STATES = {"running": "green", "starting": "cyan", "stopping": "yellow", "restarting": "yellow"}


def render(status: dict[str, Any]) -> RenderableType:
    """A headline, a line on the sandbox, and the tree."""
    sandbox = status["sandbox"]
    lines: list[RenderableType] = [
        Text.assemble(
            ("rumi ", "bold"),
            f"{status['program']} · process {status['pid']} · up {duration(status['uptime_s'])}"
            f" · model {status['model']} · sandbox {sandbox['engine']}",
        )
    ]
    lines.extend(Text(f"degraded: {why}", style="yellow") for why in sandbox["degraded"])
    table = Table(box=None, padding=(0, 1, 0, 0), expand=False)
    table.add_column("actor", no_wrap=True, overflow="ellipsis", max_width=28)
    table.add_column("state", no_wrap=True)
    table.add_column("re", justify="right", no_wrap=True)
    table.add_column("mail", justify="right", no_wrap=True)
    table.add_column("doing")  # the one that gives way where there is too little room for all
    for prefix, item in _walk(status["tree"], "", ""):
        error = item["last_error"] or ""
        doing = item["doing"] or (f"last error: {error}" if error else "")
        if doing and item["doing"] and item["age_s"] is not None and " s" not in doing:
            doing = f"{doing}, {duration(item['age_s'])}"
        table.add_row(
            f"{prefix}{item['id']}",
            Text(item["state"], style=STATES.get(item["state"], "red")),
            str(item["restarts"] or ""),
            str(item["mailbox"]["depth"] or ""),
            Text(doing, no_wrap=True, overflow="ellipsis"),
        )
    return Group(*lines, table)


def _walk(item: dict[str, Any], lead: str, below: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield lead, item
    children = item["children"]
    for place, child in enumerate(children):
        last = place == len(children) - 1
        yield from _walk(child, below + ("└ " if last else "├ "), below + ("  " if last else "│ "))


def duration(seconds: float) -> str:
    """A duration in its largest two units: `42 s`, `3 min 5 s`, `2 h 10 min`, `4 d 1 h`."""
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
