"""A server of tools that reaches hosts by the standard library: by HTTP, and by plain sockets."""

import json
import os
import socket
import sys
import urllib.error
import urllib.request

TOOLS = {
    "get": {"url": {"type": "string"}},
    "connect": {"host": {"type": "string"}, "port": {"type": "integer"}},
    "environment": {},
}


def get(url: str) -> str:
    """Return the text at an address, or the text of the error."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return f"{error} {error.read().decode()}"
    except OSError as error:
        return f"failed: {error}"


def connect(host: str, port: int) -> str:
    """Return the first bytes that a host sends, without a proxy."""
    try:
        with socket.create_connection((host, port), 5) as one:
            one.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return one.recv(12).decode()
    except OSError as error:
        return f"failed: {error}"


def environment() -> str:
    """Return what the sandbox has for a network."""
    with open("/etc/hosts") as file:
        hosts = file.read()
    interfaces = sorted(os.listdir("/proc/sys/net/ipv4/conf"))
    return json.dumps({"hosts": hosts, "interfaces": interfaces, "proxy": os.environ.get("HTTPS_PROXY")})


def main() -> None:
    """Answer requests until the input ends."""
    for line in sys.stdin:
        asked = json.loads(line)
        params = asked.get("params", {})
        if "id" not in asked:
            continue
        match asked["method"]:
            case "initialize":
                version = params["protocolVersion"]
                about = {"name": "reaching", "version": "1"}
                result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
            case "tools/list":
                tools = [
                    {"name": name, "inputSchema": {"type": "object", "properties": properties}}
                    for name, properties in TOOLS.items()
                ]
                result = {"tools": tools}
            case "tools/call":
                text = {"get": get, "connect": connect, "environment": environment}[params["name"]](
                    **params.get("arguments", {})
                )
                result = {"content": [{"type": "text", "text": text}]}
            case _:
                result = {}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)


main()
