"""`docs/schemas.json`: the JSON Schema of what each command prints with --json. `make docs` writes it."""

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from rumi.cli.json_forms import DOCUMENTS, LINES

TARGET = Path(__file__).parent.parent / "schemas.json"


def schemas() -> dict[str, dict[str, Any]]:
    """Return the schemas by command: of the document, or of each line."""
    return {
        "documents": {name: TypeAdapter(form).json_schema() for name, form in DOCUMENTS.items()},
        "lines": {name: TypeAdapter(form).json_schema() for name, form in LINES.items()},
    }


def rendered() -> str:
    """Return the whole file."""
    return json.dumps(schemas(), indent=1) + "\n"


if __name__ == "__main__":
    TARGET.write_text(rendered(), "utf-8")
