"""A model that sees: it reads the pictures of a request byte by byte, and answers with what they are."""

import json
from base64 import b64decode
from io import BytesIO
from typing import Any

from PIL import Image

from tests.fakes.groq_replies import Answer, Behaviour, Body

MODEL = "meta-llama/llama-4-maverick-17b-128e-instruct"
MOST_PIXELS, MOST_BYTES = 1_200_000, 600_000


def pictures_in(body: Body) -> list[Image.Image]:
    """The pictures of a request: real ones, within the bound, and without metadata."""
    found = []
    for message in body["messages"]:
        parts: list[dict[str, Any]] = message["content"] if isinstance(message["content"], list) else []
        for part in parts:
            if part["type"] != "image_url":
                continue
            kind, data = part["image_url"]["url"].removeprefix("data:").split(";base64,")
            content = b64decode(data, validate=True)
            picture = Image.open(BytesIO(content))
            picture.load()
            assert picture.get_format_mimetype() == kind
            assert len(content) <= MOST_BYTES
            assert picture.width * picture.height <= MOST_PIXELS
            assert not picture.getexif()
            assert "exif" not in picture.info
            found.append(picture)
    return found


def words_of(content: Any) -> str:
    """The words of a message, which may have pictures beside them."""
    if isinstance(content, str) or content is None:
        return content or ""
    return "\n".join(part["text"] for part in content if part["type"] == "text")


def sees(body: Body) -> Behaviour:
    """`look PATH` reads the file first, `send PATH` sends it; the answer lists all pictures of the prompt."""
    said = [words_of(message["content"]) for message in body["messages"] if message["role"] == "user"]
    last = body["messages"][-1]
    own = next((text for text in reversed(said) if not text.startswith("[")), "")
    word, _, path = own.partition(" ")
    if word in ("look", "send") and last["role"] == "user" and words_of(last["content"]) == own:
        name = "read_file" if word == "look" else "send_file"
        return Answer(calls=[(name, json.dumps({"path": path}))])
    seen = [f"{picture.format} {picture.width}x{picture.height}" for picture in pictures_in(body)]
    notes = [text for text in said if "is left out" in text]
    return Answer(f"I see {', '.join(seen) or 'nothing'}. {' '.join(notes)}".strip())
