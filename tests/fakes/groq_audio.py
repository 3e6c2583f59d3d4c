"""What Groq refuses in a request for a transcription: a form with a recording in it."""

import re

from tests.fakes.groq_replies import Body
from tests.fakes.groq_rules import BadRequestError

MAX_BYTES = 25_000_000
TYPES = ("flac", "mp3", "mp4", "mpeg", "mpga", "m4a", "ogg", "opus", "wav", "webm")
MODELS = ("whisper-large-v3", "whisper-large-v3-turbo")

_FIELDS = {"model", "file", "language", "prompt", "response_format", "temperature"}
_FORM = re.compile(r'multipart/form-data; *boundary="?([^";]+)"?')
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')


class TooLargeError(Exception):
    """The recording is refused with a 413."""


def read_form(content_type: str, data: bytes) -> Body | None:
    """The form's fields: `file` as bytes, with `file_name` and `file_type`, others as text. None: no form."""
    found = _FORM.fullmatch(content_type)
    if found is None:
        return None
    body: Body = {}
    for part in data.split(b"--" + found[1].encode())[1:-1]:
        head, _, content = part.removeprefix(b"\r\n").removesuffix(b"\r\n").partition(b"\r\n\r\n")
        lines = [line.partition(": ") for line in head.decode().split("\r\n")]
        headers = {name.lower(): value for name, _, value in lines}
        parameters = dict(_PARAMETER.findall(headers["content-disposition"]))
        if "filename" in parameters:
            body |= {"file": content, "file_name": parameters["filename"]}
            body["file_type"] = headers.get("content-type", "")
        else:
            body[parameters["name"]] = content.decode()
    return body


def check_recording(body: Body) -> None:
    """Raise what Groq would answer with."""
    fields = set(body) - {"file_name", "file_type"}
    _need(fields <= _FIELDS, f"unsupported: {sorted(fields - _FIELDS)}")
    _need(body.get("model") in MODELS, f"the model {body.get('model')!r} does not transcribe")
    _need(isinstance(body.get("file"), bytes), "file or url must be provided")
    if len(body["file"]) > MAX_BYTES:
        raise TooLargeError
    _need(len(body["file"]) > 0, "file is empty")
    ending = body["file_name"].rpartition(".")[2]
    _need(ending in TYPES, f"file must be one of the following types: [{' '.join(TYPES)}]")
    _need(
        re.fullmatch("[a-z]{2,3}", body.get("language", "en")) is not None,
        "language must be an ISO 639-1 code",
    )
    _need(body.get("response_format", "json") in {"json", "text", "verbose_json"}, "unknown response_format")
    _need(0 <= _number(body.get("temperature", "0")) <= 1, "temperature must be between 0 and 1")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise BadRequestError(message)
