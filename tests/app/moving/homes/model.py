"""A model server with OpenAI's API on loopback, for `making.py`: `python model.py PORT`.

It calls the tool that a message names as `CALL tool {arguments} END`, and otherwise answers with its words.
"""

import json
import re
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_CALL = re.compile(r"CALL (\w+) (\{.*?\}) END", re.DOTALL)


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


def _reply(messages: list[dict[str, Any]]) -> dict[str, Any]:
    said = next(_text(message) for message in reversed(messages) if message["role"] == "user")
    if messages[-1]["role"] == "tool":
        return {"role": "assistant", "content": f"Done. The tool said: {_text(messages[-1])[:200]}"}
    if found := _CALL.search(said):
        call = {"id": f"call_{time.time_ns() // 10**6}", "type": "function", "index": 0}
        call["function"] = {"name": found[1], "arguments": found[2]}
        return {"role": "assistant", "content": "", "tool_calls": [call]}
    hello = "Hello! How can I help?"
    return {"role": "assistant", "content": hello if said == "hello" else f"I heard: {said[-160:]}"}


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        self._send("application/json", json.dumps({"data": [{"id": "offline-model"}]}))

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "messages" not in asked:  # a question about something else
            self.send_error(404)
            return
        reply = _reply(asked["messages"])
        end = "tool_calls" if "tool_calls" in reply else "stop"
        base = {"id": "1", "created": int(time.time()), "model": "offline-model"}
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        if not asked.get("stream"):
            choice = {"index": 0, "message": reply, "finish_reason": end}
            done = {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
            self._send("application/json", json.dumps(done))
            return
        base["object"] = "chat.completion.chunk"
        chunks = [
            {**base, "choices": [{"index": 0, "delta": reply, "finish_reason": None}]},
            {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": end}], "usage": usage},
        ]
        lines = [json.dumps(chunk) for chunk in chunks] + ["[DONE]"]
        self._send("text/event-stream", "".join(f"data: {line}\n\n" for line in lines))

    def _send(self, kind: str, text: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.end_headers()
        self.wfile.write(text.encode())


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), _Handler).serve_forever()
