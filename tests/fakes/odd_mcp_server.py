"""A server of tools that answers with prepared lines: `python odd_mcp_server.py SCRIPT`.

SCRIPT is a JSON file. `init` are the lines that answer `initialize`, `list` those that answer `tools/list`
(a list for each page asked for), `calls` has the lines that answer the call of each tool; `first` comes
at the start. A line is a text; `$ID` in it becomes the id of the request. What the server was asked is kept
in the file `asked` of its HOME.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

SCRIPT = json.loads(Path(sys.argv[1]).read_text())
INIT = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "odd", "version": "1"},
}


def say(lines: list[str], id_: object) -> None:
    """Write lines, with the id of a request in them."""
    for line in lines:
        text = line.replace("$ID", json.dumps(id_))
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape") + b"\n")
    sys.stdout.buffer.flush()


def answer(result: object) -> list[str]:
    """Return the line of a good answer."""
    return [f'{{"jsonrpc": "2.0", "id": $ID, "result": {json.dumps(result)}}}']


def main() -> None:
    """Answer until the input ends."""
    say(SCRIPT.get("first", []), None)
    pages = list(SCRIPT.get("list", []))
    for line in sys.stdin:
        message: dict[str, Any] = json.loads(line)
        with Path(os.environ["HOME"], "asked").open("a") as asked:
            asked.write(line)
        method, id_ = message.get("method"), message.get("id")
        if id_ is None or method is None:
            continue
        if method == "initialize":
            say(SCRIPT.get("init") or answer(INIT), id_)
        elif method == "tools/list":
            say(pages.pop(0) if len(pages) > 1 else pages[0], id_)
        elif method == "tools/call":
            say(SCRIPT["calls"][message["params"]["name"]], id_)
        else:
            say(
                ['{"jsonrpc": "2.0", "id": $ID, "error": {"code": -32601, "message": "no such method"}}'], id_
            )


if __name__ == "__main__":
    main()
