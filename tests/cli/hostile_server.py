"""A server of tools (MCP) over standard streams whose names and descriptions a terminal would obey."""

import json
import sys

EVIL = "evil \x1b[31mred\x1b]0;title\x07 \x9b31m \x08 \u202egnp.exe\u2066 end"

for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    result: object = {}
    match request["method"]:
        case "initialize":
            result = {
                "protocolVersion": request["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": EVIL, "version": EVIL},
                "instructions": EVIL,
            }
        case "tools/list":
            schema = {"type": "object", "properties": {"x": {"type": "string", "description": EVIL}}}
            names = ("plain", EVIL)
            result = {
                "tools": [
                    {"name": name, "title": EVIL, "description": EVIL, "inputSchema": schema}
                    for name in names
                ]
            }
    sys.stderr.write(EVIL)
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}) + "\n")
    sys.stdout.flush()
