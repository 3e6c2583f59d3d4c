"""Servers that bring tools over streamable HTTP: the official library's, and a hostile one.

`python -m tests.fakes.mcp_http official|hostile` prints its address and serves until it is ended.
"""

import json
import sys
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import trio


async def official() -> None:
    """Serve the official library's server, with hypercorn."""
    from hypercorn.config import Config
    from hypercorn.trio import serve
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("official")

    @server.tool()
    async def echo(text: str) -> str:
        """Return the text."""
        await trio.lowlevel.checkpoint()
        return text

    @server.tool()
    async def slow() -> str:
        """Take long."""
        try:
            await trio.sleep(600)
        except trio.Cancelled:
            print("cancelled", flush=True)
            raise
        return "done"

    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.loglevel = "ERROR"
    app = server.streamable_http_app()
    async with trio.open_nursery() as nursery:
        (address,) = await nursery.start(partial(serve, app, config))
        print(f"{address}/mcp", flush=True)


ODD = (
    '{"jsonrpc":"2.0","id":$ID,"result":"PLAIN"}',
    '{"jsonrpc":"2.0","id":$ID,"result":["PLAIN"]}',
    '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"json","json":{"a":"PLAIN"}}]}}',
    '{"id":"$ID","result":{"content":"PLAIN"}}',
    '{"jsonrpc":"2.0","id":$ID,"error":{"code":-32000,"data":"PLAIN"}}',
    '{"jsonrpc":"2.0","id":$ID,"error":"PLAIN"}',
    '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"PLAIN"}]},"error":{"code":1}}',
    '[{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"PLAIN"}]}}]',
    '{"jsonrpc":"2.0","id":$ID,"content":[{"type":"text","text":"PLAIN"}]}',
    '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"PLAIN',
    '{"jsonrpc":"2.0","id":$ID,"result":\ndata: {"content":[{"type":"text","text":"PLAIN"}]}}',
)
"""Answers to calls in forms that are no JSON-RPC, or no result."""


class Hostile(BaseHTTPRequestHandler):
    """Answers calls with 1 GB of JSON, or with a small body that unpacks to much."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.headers.get("authorization") != "Bearer secret":
            self._send(401, {})
            return
        method, id_ = message.get("method"), message.get("id")
        if id_ is None:
            self.send_response(202)
            self.send_header("content-length", "0")
            self.end_headers()
        elif method == "initialize":
            version = message["params"]["protocolVersion"]
            server = {"name": "hostile", "version": "1"}
            self._answer(
                id_, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
            )
        elif method == "tools/list":
            names = (
                "huge",
                "packed",
                "fine",
                *(f"{how}_{n}" for how in ("body", "event") for n in range(len(ODD))),
            )
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
            self._answer(id_, {"tools": tools})
        elif method == "tools/call":
            self._call(id_, message["params"]["name"])
        else:
            error = {"code": -32601, "message": "no such method"}
            self._send(200, {"jsonrpc": "2.0", "id": id_, "error": error})

    def do_GET(self) -> None:
        self._send(405, {})

    def do_DELETE(self) -> None:
        self._send(405, {})

    def _call(self, id_: object, name: str) -> None:
        if name == "fine":
            self._answer(id_, {"content": [{"type": "text", "text": "fine"}]})
            return
        how, _, number = name.partition("_")
        if number:
            said = ODD[int(number)].replace("$ID", json.dumps(id_))
            event = how == "event"
            self._send_text(
                f"event: message\ndata: {said}\n\n" if event else said,
                "text/event-stream" if event else "application/json",
            )
            return
        self.send_response(200)
        self.send_header("content-type", "application/json")
        if name == "packed":
            self.send_header("content-encoding", "gzip")
        self.send_header("content-length", str(1 << 30))
        self.end_headers()
        try:
            for _ in range(1 << 10):
                self.wfile.write(b" " * (1 << 20))
        except OSError:
            self.close_connection = True

    def _answer(self, id_: object, result: object) -> None:
        self._send(200, {"jsonrpc": "2.0", "id": id_, "result": result})

    def _send_text(self, text: str, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def _send(self, status: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


if __name__ == "__main__":
    if sys.argv[1] == "official":
        trio.run(official)
    else:
        http = ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
        http.daemon_threads = True
        print(f"http://127.0.0.1:{http.server_port}/mcp", flush=True)
        http.serve_forever()
