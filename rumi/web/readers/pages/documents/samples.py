"""Small documents, to import what the readers import at first use: a confined process cannot do it later."""

import zipfile
from contextlib import suppress
from io import BytesIO

from rumi.platform import text_decoding
from rumi.platform.extras import is_installed, missing_clause
from rumi.web.readers.pages.documents.document import read_document
from rumi.web.readers.pages.documents.lines import NoDocumentError
from rumi.web.readers.pages.documents.rtf import CODE_PAGES, codec_of_page

_MAIL = b"""From: =?utf-8?q?a?= <a@b.example>\r
Date: Fri, 6 Mar 2026 08:00:00 +0100\r
MIME-Version: 1.0\r
Content-Type: multipart/mixed; boundary=x\r
\r
--x\r
Content-Type: text/html; charset=utf-8\r
Content-Transfer-Encoding: quoted-printable\r
\r
<table><tr><td>a</td></tr></table>\r
--x\r
Content-Disposition: attachment; filename*=utf-8''a.rtf\r
Content-Transfer-Encoding: base64\r
\r
e1xydGYxIGF9\r
--x--\r
"""


def read_all() -> None:
    """Read a sample of each family, and import the packages that read the others."""
    missing_clause("office")  # looks at the disk, which the confined process cannot do
    if is_installed("office"):
        import olefile  # noqa: F401
        import python_calamine  # noqa: F401
        import xlrd  # noqa: F401

    text_decoding.load()
    for page in CODE_PAGES:
        codec_of_page(page)
    for body in (_zipped(), _MAIL, b"%PDF-1.4", b"%PDF-1.4\n1 0 obj<</Type/Page>>endobj"):
        with suppress(NoDocumentError):
            read_document(body, "", 1000)


def _zipped() -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", "<workbook><sheets><sheet name='a'/></sheets></workbook>")
        cell = "<c t='inlineStr'><is><t>a</t></is></c><c><v>1.5</v></c>"
        archive.writestr(
            "xl/worksheets/sheet1.xml", f"<worksheet><sheetData><row>{cell}</row></sheetData></worksheet>"
        )
    return out.getvalue()
