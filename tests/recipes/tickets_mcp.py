"""A server of tools for a service with tickets, as people install one; it knows only the standard library."""

import json
import os
import sys
import urllib.error
import urllib.request
from typing import Any


def tool(name: str, reads: bool, **properties: object) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": [*properties]}
    about = f"{name.replace('_', ' ').capitalize()}."
    return {"name": name, "description": about, "inputSchema": schema, "annotations": {"readOnlyHint": reads}}


TOOLS = [tool("list_tickets", reads=True), tool("close_ticket", reads=False, id={"type": "integer"})]


def ask(url: str, method: str = "GET") -> str:
    """Ask the service; its answer, or the text of the error."""
    headers = {"Authorization": f"Bearer {os.environ['TICKETS_TOKEN']}"}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, None, headers, method=method), timeout=10
        ) as answer:
            return str(answer.read().decode())
    except (urllib.error.HTTPError, OSError) as error:
        return f"failed: {error}"


def result(asked: dict[str, Any], url: str) -> dict[str, Any]:
    params = asked.get("params", {})
    match asked["method"]:
        case "initialize":
            about = {"name": "tickets", "version": "1"}
            version = params["protocolVersion"]
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call" if params["name"] == "list_tickets":
            text = ask(f"{url}/tickets")
        case "tools/call":
            text = ask(f"{url}/tickets/{params['arguments']['id']}/close", "POST")
        case _:
            return {}
    return {"content": [{"type": "text", "text": text}]}


def main() -> None:
    url = sys.argv[sys.argv.index("--url") + 1]
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            answer = {"jsonrpc": "2.0", "id": asked["id"], "result": result(asked, url)}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
