"""Differences between model servers that claim one protocol: how each of them is read, and what is sent.

`docs/dialects.md` lists the differences, and `tests/dialects/` has a recording of each. The protocols' own
modules (`stream`, `anthropic`, `ollama`) call the functions of this package.

- `events` splits a body into events: server-sent events, JSON lines, or one JSON document.
- `endings` says what a reason for the end of a reply means.
- `thoughts` separates reasoning from the answer.
- `call_parts` joins the parts of tool calls. `text_calls` finds calls that a server left in the text, and
  `failed_calls` those in an error; it also removes gpt-oss's format from texts and names.
- `values` and `literals` read arguments that are not plain JSON.
- `reported_errors` finds the error in a body or an event, whatever its form.
- `conversation` repairs the ids and the results of tool calls before a conversation is sent.
"""
