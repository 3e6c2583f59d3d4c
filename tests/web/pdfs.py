"""Small PDFs, made by hand."""


def pdf(pages: list[bytes], *, title: str = "", encrypted: bool = False, flate: bool = False) -> bytes:
    """A PDF with what each page draws: text operators, or compressed ones with `flate`."""
    kids = " ".join(f"{5 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>".encode(),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        f"<</Title({title})>>".encode(),
    ]
    for number, drawn in enumerate(pages):
        content = drawn if flate else b"BT /F1 12 Tf 20 200 Td " + drawn + b" ET"
        objects.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 3000 300]/Contents {6 + 2 * number} 0 R"
            "/Resources<</Font<</F1 3 0 R>>>>>>".encode()
        )
        packed = b"/Filter/FlateDecode" if flate else b""
        objects.append(b"<<%s/Length %d>>stream\n%s\nendstream" % (packed, len(content), content))
    out = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number, item in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, item)
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    # A key for a password that nobody knows: right in form, wrong in content.
    lock = b"/Encrypt<</Filter/Standard/V 1/R 2/O(%s)/U(%s)/P -4>>/ID[(0123456789abcdef)(0123456789abcdef)]"
    locked = lock % (b"o" * 32, b"u" * 32) if encrypted else b""
    out += b"trailer<</Size %d/Root 1 0 R/Info 4 0 R%s>>\nstartxref\n%d\n%%%%EOF" % (
        len(objects) + 1,
        locked,
        table,
    )
    return bytes(out)
