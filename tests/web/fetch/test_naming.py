"""What a downloaded file is called, by what its server says."""

import pytest

from rumi.web.fetch.headers import Headers
from rumi.web.fetch.naming import disposition_name, suggested_name
from rumi.web.url import parse_target


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("attachment; filename=plain.csv", "plain.csv"),
        ('attachment; filename="in quotes; and more.csv"', "in quotes; and more.csv"),
        (r'attachment; filename="with \"quotes\" and \\.csv"', r'with "quotes" and \.csv'),
        ("attachment; filename*=UTF-8''na%C3%AFve%20%E2%82%AC.csv", "naïve €.csv"),
        ("attachment; filename=\"old.csv\"; filename*=UTF-8'en'new.csv", "new.csv"),
        ("attachment; filename*=UTF-8''new.csv; filename=old.csv", "new.csv"),
        ("attachment; filename*=iso-8859-1'en'%A3%20rates.csv", "£ rates.csv"),
        ("attachment; filename*=no-such-charset''x.csv; filename=old.csv", "old.csv"),
        ("attachment; filename*=UTF-8''%FF%FE.csv; filename=old.csv", "old.csv"),
        ('ATTACHMENT; FileName="case.csv"', "case.csv"),
        ('inline; size=3; filename = "spaced.csv" ; x=y', "spaced.csv"),
        ('attachment; filename="año.csv"'.encode().decode("latin-1"), "año.csv"),
        ('attachment; filename="año.csv"'.encode("latin-1").decode("latin-1"), "año.csv"),
        ('attachment; filename="=?UTF-8?B?YcOxby5jc3Y=?="', "año.csv"),
        ('attachment; filename="a%20b.csv"', "a b.csv"),
        ('attachment; filename="not closed.csv', "not closed.csv"),
        ("attachment", ""),
        ("", ""),
        ("attachment; filename=", ""),
        ("attachment;filename=" + "\\" * 5000, "\\" * (2000 - len("attachment;filename="))),
    ],
)
def test_the_name_in_a_header(header: str, name: str) -> None:
    assert disposition_name(header) == name


@pytest.mark.parametrize(
    ("url", "media_type", "name"),
    [
        ("http://a.example/data/rates.csv?x=1", "text/csv", "rates.csv"),
        ("http://a.example/data/a%20b.csv", "text/csv", "a b.csv"),
        ("http://a.example/", "application/pdf", "download.pdf"),
        ("http://a.example/report", "application/pdf", "report.pdf"),
        ("http://a.example/report", "application/octet-stream", "report"),
        ("http://a.example/report", "", "report"),
        ("http://a.example/.htaccess", "text/plain", "download.htaccess"),
    ],
)
def test_the_name_in_a_url(url: str, media_type: str, name: str) -> None:
    headers = Headers([(b"content-type", media_type.encode())])
    assert suggested_name(headers, parse_target(url)) == name
