"""Rows of the supervision tree and of the chats, made from the status dump for display on the page.

The number of rows is limited to what a person can read.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from rumi.channels.counters import TOOLS
from rumi.channels.status_dump import Item, Row, below, chats, figures, rows, top, trouble
from rumi.platform.chat_ids import LOCAL

MOST_CHILDREN = 50
"""Maximum number of chats, and of rows below one supervisor. Active ones come first."""


def view_of(dump: Item, own: Callable[[str], bool]) -> dict[str, object]:
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
    dump = {**dump, "tree": tree}
    found, working = chats(dump)
    shown, left = _first(found)
    cards = [_chat(chat, failed) for chat in sorted(shown, key=_rank)]
    known = {chat["id"] for chat in found}
    # Chats that reached their restart limit and have no actor.
    gone = ({"id": chat, "figures": {}, "restarts": 0} for chat in failed if chat not in known)
    cards.extend(_chat(chat, failed) for chat in gone)
    sandbox, schedules, spending = (
        dump.get("sandbox") or {},
        figures(dump, "schedules"),
        figures(dump, "budgets"),
    )
    return {
        "program": dump.get("program", ""),
        "model": dump.get("model", ""),
        "engine": sandbox.get("engine", ""),
        "degraded": list(sandbox.get("degraded", ())),
        "trouble": trouble(dump),
        "workers": [_worker(worker) for worker in dump.get("workers") or ()],
        "services": list(_services(dump)) if own(LOCAL) else [],
        "started": round(_seconds(dump.get("time", "")) - dump.get("uptime_s", 0.0)),
        "actors": [_actor(row) for row in rows(tree, _children)],
        "chats": cards,
        "more_chats": left,
        "chats_at_work": working,
        "chats_in_memory": len(found),
        "spending": dict(spending) if "today" in spending else {},  # empty until today's usage has been read
        "bots": _bots(below(dump, "tasks")),
        "tasks": sum(
            bool(task["figures"]) and not task["figures"].get("bot") for task in below(dump, "tasks")
        ),
        "schedules": schedules.get("schedules", []),
        "schedules_active": schedules.get("active", 0),
        "schedules_paused": schedules.get("paused", 0),
    }


def _services(dump: Item) -> Iterator[dict[str, object]]:
    """Yield a row for each calendar, mailbox, account, plugin and browser, with its use and its error."""
    for row in dump.get("calendars") or ():
        yield {"kind": "calendar", "name": row["name"], "used": row["read"], "error": row["error"]}
    found = top(dump)
    for id, node in found.items():
        if not id.startswith("mail:"):
            continue
        box = node["figures"]
        row = {"kind": "mailbox", "name": box["address"], "used": box["used"], "error": box["failure"]}
        if box["channel"]:
            watching = figures(dump, "mail")
            row |= {
                "kind": "channel",
                "error": watching.get("trouble") or "",
                "mails": watching.get("mails", 0),
            }
        yield row
    for node in found.values():
        if account := node["figures"].get("matrix"):
            trouble = node["figures"].get("trouble") or ""
            came = node["figures"].get("stored", 0)
            yield {"kind": "matrix", "name": account, "used": None, "error": trouble, "messages": came}
    for plugin in dump.get("plugins") or ():
        error = "; ".join(plugin["problems"])
        yield {"kind": "plugin", "name": plugin["name"], "used": None, "error": error}
    if "browser" in found:
        pages = sum(each["figures"].get("pages", 0) for each in found["browser"]["children"])
        yield {"kind": "browser", "name": "", "used": None, "error": "", "pages": pages}


def _worker(worker: Item) -> dict[str, object]:
    """Return a worker's row without values that change as time passes."""
    state = "ended" if worker["lease_left_s"] <= 0 else "leaving" if worker["leaving"] else "running"
    return {
        "name": worker["name"],
        "state": state,
        "partitions": worker["partitions"],
        "turns": worker["turns"] or 0,
    }


def _seconds(time: str) -> float:
    """Return the dump's time in seconds since 1970; 0 without a time."""
    return datetime.fromisoformat(time).timestamp() if time else 0.0


def _bots(tasks: Sequence[Item]) -> list[dict[str, object]]:
    """Return the local owner's active bots."""
    found = (task["figures"] for task in tasks)
    return [
        {
            "name": task["bot"],
            "state": task["state"],
            "iterations": task["iterations"],
            "calls": task["calls"],
            "usd": task["usd"],
            "step": task["step"],
        }
        for task in found
        if task.get("bot")
    ]


def _withheld(node: Item, own: Callable[[str], bool]) -> Item:
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


def _others_task(task: Item) -> Item:
    state = task["figures"].get("state", "")
    error = (task["last_error"] or "").partition(":")[0]
    return {**task, "doing": state, "last_error": error, "figures": {}}


def _others_chat(chat: Item) -> Item:
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


def _first(children: Sequence[Item]) -> tuple[Sequence[Item], int]:
    if len(children) <= MOST_CHILDREN:
        return children, 0
    return sorted(children, key=_rank)[:MOST_CHILDREN], len(children) - MOST_CHILDREN


def _rank(child: Item) -> tuple[bool, float]:
    """Return the sort key of a child: active children come first, and among these the longest-running."""
    return not child["doing"], -(child["figures"].get("age_s") or 0.0)


def _children(node: Item) -> tuple[Sequence[Item], str]:
    shown, left = _first(node["children"])
    return shown, f"+{left}" if left else ""


def _actor(row: Row) -> dict[str, object]:
    node = row.what
    if isinstance(node, str):
        return {"id": node, "depth": row.depth, "kind": "more", "state": "", "restarts": 0, "mail": 0,
                "doing": "", "error": ""}  # fmt: skip
    return {
        "id": node["id"],
        "depth": row.depth,
        "kind": node["kind"],
        "state": node["state"],
        "restarts": node["restarts"],
        "mail": node["mailbox"]["depth"],
        "doing": node["doing"],
        "error": node["last_error"] or "",
    }


def _chat(node: Item, failed: Item) -> dict[str, object]:
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


def _call(tool: Item) -> str:
    """Return a running tool call as one line: `$` and the command for bash, else tool and argument."""
    name, what = tool.get("name", ""), tool.get("what", "")
    return f"$ {what}" if name == "bash" and what else " ".join(filter(None, (name, what)))
