"""`docs/calls.md`: the control calls and their fields, from their declarations. `make docs` writes it."""

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rumi.app.control_calls import DECLARED
from rumi.platform.calls import Declaration, PartitionKey

TARGET = Path(__file__).parent.parent / "calls.md"
FROM_SERVER = {"passed", "away"}
"""Fields that the server itself adds when it forwards a request."""

TITLE = """# Control calls

*For engineers.* These are all requests that a program can make of a running Rumi, over its control socket.
`make docs` writes this page from the declarations. [status.md](status.md#from-a-program) describes the
socket and the field `caller`.

`tasks.stop` stands for `{"call": "tasks", "do": "stop", "id": 7, "caller": {…}}`, and the stream
`task.follow` for `{"stream": "task", "do": "follow", …}`. Fields in **bold** are required. A field with a
wrong type is refused with its name. A field that is null counts as absent. Unknown fields are ignored.

Calls with the rights "all" need a caller with the rights `all`; the others answer only for what the caller
may see. The last column names the field that decides [which worker](cluster.md) answers; without one, any
worker does.
"""


def rendered() -> str:
    """Return the whole document."""
    return "\n".join((TITLE, "## Calls\n", *_table(stream=False), "\n## Streams\n", *_table(stream=True), ""))


def _table(*, stream: bool) -> Iterator[str]:
    yield "| name | what it does | fields | rights | worker of |\n|---|---|---|---|---|"
    for declared in DECLARED.values():
        if declared.stream == stream:
            what = (inspect.getdoc(declared.method) or "").partition("\n\n")[0].replace("\n", " ")
            about = ("; ".join(_fields(declared)), declared.rights, _worker(declared.key))
            cells = (f"`{declared.name}`", what, *about)
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _fields(declared: Declaration) -> Iterator[str]:
    schema = declared.schema()
    for name, field in schema.get("properties", {}).items():
        if name not in FROM_SERVER:
            shown = f"**`{name}`**" if name in schema.get("required", ()) else f"`{name}`"
            about = f": {field['description']}" if "description" in field else ""
            yield f"{shown} {_type(field, schema)}{about}"


def _type(field: dict[str, Any], schema: dict[str, Any]) -> str:
    if "enum" in field:
        return " or ".join(f"`{json.dumps(value)}`" for value in field["enum"])
    if "anyOf" in field:
        return " or ".join(_type(kind, schema) for kind in field["anyOf"] if kind.get("type") != "null")
    if "$ref" in field:
        names = schema["$defs"][field["$ref"].rpartition("/")[2]]["properties"]
        return f"object with {', '.join(f'`{name}`' for name in names)}"
    if field.get("type") == "array":
        return f"list of {_type(field['items'], schema)}"
    return str(field.get("type", "value"))


def _worker(key: PartitionKey | None) -> str:
    if key is None:
        return ""
    default = f", by default `{key.default}`" if key.default else ""
    return f"{f'{key.of} ' if key.of else ''}`{key.field}`{default}"


if __name__ == "__main__":
    TARGET.write_text(rendered(), "utf-8")
