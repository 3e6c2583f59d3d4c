"""The text fields of a PDF form without compressed objects."""

import re

OBJECT = re.compile(rb"(\d+) 0 obj\s(.*?)\sendobj", re.DOTALL)
NAME = re.compile(rb"/T \(([^)]*)\)")
VALUE = re.compile(rb"/V \(([^)]*)\)")


def objects(raw: bytes) -> dict[int, bytes]:
    """Return the objects by number."""
    return {int(number): body for number, body in OBJECT.findall(raw)}


def fields(raw: bytes) -> dict[str, str]:
    """Return the value of each text field."""
    found = {}
    for body in objects(raw).values():
        name, value = NAME.search(body), VALUE.search(body)
        if name:
            found[name[1].decode()] = value[1].decode() if value else ""
    return found


def filled(raw: bytes, values: dict[str, str]) -> bytes:
    """Return the form with these values, and a cross-reference table that fits."""
    out, places = bytearray(b"%PDF-1.4\n"), []
    for number, body in sorted(objects(raw).items()):
        name = NAME.search(body)
        if name and name[1].decode() in values:
            text = values[name[1].decode()].replace("(", "").replace(")", "")
            body = VALUE.sub(f"/V ({text})".encode().replace(b"\\", b""), body)
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(places) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(places) + 1, start)
    return bytes(out)
