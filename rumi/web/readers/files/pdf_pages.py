"""Rendering of a page of a PDF document as a picture, in a confined process."""

from base64 import b64encode
from io import BytesIO
from typing import Final

from rumi.web.readers.files.scaling import NoPictureError

MOST_PAGES: Final = 2_000
"""Maximum number of a page that is rendered."""

_QUALITY: Final = 85
_BLANK: Final = (595, 842)


def load() -> None:
    """Import every module that a page may need, because the confined process cannot open files."""
    import pypdfium2
    from PIL import Image

    Image.preinit()
    sample = pypdfium2.PdfDocument.new()
    sample.new_page(*_BLANK)
    body = BytesIO()
    sample.save(body)
    page_of(body.getvalue(), 1, 64)


def page_of(body: bytes, number: int, most_px: int) -> dict[str, object]:
    """Return the page with a number, from 1, as a picture in base64, and the number of `pages`.

    The longer side has at most `most_px` pixels.

    Raises:
        NoPictureError: The document cannot be opened, or has no such page.
    """
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(body)
    except pypdfium2.PdfiumError as error:
        locked = "password" in str(error).lower()
        raise NoPictureError("it needs a password" if locked else "it is broken") from None
    try:
        pages = len(document)
        if not 1 <= number <= min(pages, MOST_PAGES):
            raise NoPictureError("it has no such page")
        try:
            page = document[number - 1]
            width, height = page.get_size()
            scale = most_px / max(width, height, 1)
            picture = page.render(scale=scale, may_draw_forms=False).to_pil().convert("RGB")
        except pypdfium2.PdfiumError:
            raise NoPictureError("the page is broken") from None
    finally:
        document.close()
    out = BytesIO()
    picture.save(out, "JPEG", quality=_QUALITY)
    return {"pages": pages, "data": b64encode(out.getvalue()).decode()}
