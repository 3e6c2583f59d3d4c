"""Rows of the supervision tree and of the chats, made from the status dump for display on the page.

The number of rows is limited to what a person can read.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rumi.channels.http.counters import TOOLS

MOST_CHILDREN = 50
"""Maximum number of chats, and of rows below one supervisor. Active ones come first."""


def view_of(dump: Mapping[str, Any], own: Callable[[str], bool]) -> dict[str, object]:
    """Return the rows to display on the page.

    Only rows of active work contain values that change as time passes, such as an age. So an idle process
    gives equal results, and nothing is sent to browsers. If a chat or task does not belong to the visitor
    (`own` returns False), its row shows that it is active, but not what it works on.
    """
    failed = {
        chat: failure if own(chat) else {**failure, "error": "rumi status"}
        for chat, failure in (dump.get("failed") or {}).items()
    }
    tree = {**dump["tree"], "children": [_withheld(node, own) for node in dump["tree"]["children"]]}
    chats: list[Any] = next((node["children"] for node in tree["children"] if node["id"] == "chats"), [])
    shown, left = _first(chats)
    rows = [_chat(chat, failed) for chat in sorted(shown, key=_rank)]
    known = {chat["id"] for chat in chats}
    # Chats that reached their restart limit and have no actor.
    gone = ({"id": chat, "figures": {}, "restarts": 0} for chat in failed if chat not in known)
    rows.extend(_chat(chat, failed) for chat in gone)
    sandbox = dump.get("sandbox") or {}
    figures: Mapping[str, Any] = next(
        (node["figures"] for node in tree["children"] if node["id"] == "schedules"), {}
    )
    return {
        "program": dump.get("program", ""),
        "model": dump.get("model", ""),
        "engine": sandbox.get("engine", ""),
        "degraded": list(sandbox.get("degraded", ())),
        "trouble": (dump.get("storage") or {}).get("trouble") or "",
        "workers": [_worker(worker) for worker in dump.get("workers") or ()],
        "started": round(dump.get("time", 0.0) - dump.get("uptime_s", 0.0)),
        "actors": list(_rows(tree, 0)),
        "chats": rows,
        "more_chats": left,
        "chats_at_work": sum(1 for chat in chats if chat["figures"].get("job")),
        "chats_in_memory": len(chats),
        "spending": _spending(tree),
        "bots": _bots(tree),
        "schedules": figures.get("schedules", []),
        "schedules_active": figures.get("active", 0),
        "schedules_paused": figures.get("paused", 0),
    }


def _worker(worker: Mapping[str, Any]) -> dict[str, object]:
    """Return a worker's row without values that change as time passes."""
    state = "ended" if worker["lease_left_s"] <= 0 else "leaving" if worker["leaving"] else "running"
    return {
        "name": worker["name"],
        "state": state,
        "partitions": worker["partitions"],
        "turns": worker["turns"] or 0,
    }


def _bots(tree: Mapping[str, Any]) -> list[dict[str, object]]:
    """Return the local owner's active bots."""
    tasks = next((node["children"] for node in tree["children"] if node["id"] == "tasks"), ())
    found = (task["figures"] for task in tasks)
    return [
        {
            "name": task["bot"],
            "state": task["state"],
            "iterations": task["iterations"],
            "calls": task["calls"],
            "usd": task["nano_usd"] / 1e9,
            "step": task["step"],
        }
        for task in found
        if task.get("bot")
    ]


def _spending(tree: Mapping[str, Any]) -> dict[str, object]:
    """Return usage and budgets; empty if today's usage has not been read yet."""
    found = next((dict(node["figures"]) for node in tree["children"] if node["id"] == "budgets"), {})
    return found if "today" in found else {}


def _withheld(node: Mapping[str, Any], own: Callable[[str], bool]) -> Mapping[str, Any]:
    """Return a copy of a tree node in which other owners' chats and tasks show only what everyone may see."""
    children = node["children"]
    match node["id"]:
        case "chats":
            children = [child if own(child["id"]) else _others_chat(child) for child in children]
        case "tasks":
            children = [
                child if own(child["figures"].get("owner", "")) else _others_task(child) for child in children
            ]
    return {**node, "children": children}


def _others_task(task: Mapping[str, Any]) -> Mapping[str, Any]:
    state = task["figures"].get("state", "")
    error = (task["last_error"] or "").partition(":")[0]
    return {**task, "doing": state, "last_error": error, "figures": {}}


def _others_chat(chat: Mapping[str, Any]) -> Mapping[str, Any]:
    metrics = chat["figures"]
    names = [tool["name"] for tool in metrics.get("tools") or ()]
    ages = [tool["age_s"] for tool in metrics.get("tools") or ()]
    names = [name if name in TOOLS else "other" for name in names]
    tools = [{"name": name, "what": "", "age_s": age} for name, age in zip(names, ages, strict=True)]
    job = metrics.get("job") or ""
    error = (chat["last_error"] or "").partition(":")[0]
    doing = names[0] if names else job
    return {**chat, "doing": doing, "last_error": error,
            "figures": {**metrics, "phase": job, "tools": tools}}  # fmt: skip


def _first(children: list[Any]) -> tuple[list[Any], int]:
    if len(children) <= MOST_CHILDREN:
        return children, 0
    return sorted(children, key=_rank)[:MOST_CHILDREN], len(children) - MOST_CHILDREN


def _rank(child: Mapping[str, Any]) -> tuple[bool, float]:
    """Return the sort key of a child: active children come first, and among these the longest-running."""
    return not child["doing"], -(child["figures"].get("age_s") or 0.0)


def _rows(node: Mapping[str, Any], depth: int) -> Iterator[dict[str, object]]:
    yield {
        "id": node["id"],
        "depth": depth,
        "kind": node["kind"],
        "state": node["state"],
        "restarts": node["restarts"],
        "mail": node["mailbox"]["depth"],
        "doing": node["doing"],
        "error": node["last_error"] or "",
    }
    shown, left = _first(node["children"])
    for child in shown:
        yield from _rows(child, depth + 1)
    if left:
        yield {"id": f"+{left}", "depth": depth + 1, "kind": "more", "state": "", "restarts": 0, "mail": 0,
               "doing": "", "error": ""}  # fmt: skip


def _chat(node: Mapping[str, Any], failed: Mapping[str, Any]) -> dict[str, object]:
    metrics = node["figures"]
    tools = metrics.get("tools") or [{}]
    return {
        "id": node["id"],
        "phase": metrics.get("phase") or "",
        "age": round(metrics.get("age_s") or 0),
        "tool": _call(tools[0]),
        "tool_age": round(tools[0].get("age_s") or 0),
        "container": metrics.get("container") or "",
        "history": metrics.get("history", 0),
        "asks": bool(metrics.get("question")),
        "working": bool(metrics.get("job")),
        "queued": metrics.get("queued", 0),
        "restarts": node["restarts"],
        "failed": (failed.get(node["id"]) or {}).get("error", ""),
    }


def _call(tool: Mapping[str, Any]) -> str:
    """Return a running tool call as one line: `$` and the command for bash, else tool and argument."""
    name, what = tool.get("name", ""), tool.get("what", "")
    return f"$ {what}" if name == "bash" and what else " ".join(filter(None, (name, what)))
