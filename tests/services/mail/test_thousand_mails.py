"""A mailbox of 1,000 mails in many charsets and structures: searched and read right, and left unread."""

import random
from functools import partial

import pytest
import trio

from rumi.services.mail.messages import MailQuery
from rumi.services.mail.reading import read_mail
from rumi.web.readers.files.reading import Looks, ViewLimits
from tests.mail_servers import MailServers
from tests.services.mail.generated import WORDS, mails

SEARCHED = 30


async def test_a_thousand_mails_are_read_right(mail_servers: MailServers) -> None:
    made = list(mails(1000))
    for mail in made:
        mail_servers.put("dora", mail.raw)
    box = mail_servers.mailbox("dora", timeout_s=120)
    position, none = await box.new_since("INBOX", None, 1)
    assert none == ()
    found = []
    start = type(position)(position.validity, 0)
    while len(found) < 1000:
        start, more = await box.new_since("INBOX", start, 250)
        assert more
        found += more
    assert [mail.subject for mail in found] == [mail.subject for mail in made]
    assert [mail.attachments for mail in found] == [bool(mail.attachments) for mail in made]
    assert found[7].sender == "Absender 7 <sender7@example.org>"

    for number in random.Random(1).sample(range(1000), SEARCHED):
        result = await box.search(MailQuery(text=made[number].word))
        assert [(mail.uid, mail.subject) for mail in result.mails] == [
            (found[number].uid, made[number].subject)
        ]
    for charset, said in (
        (name, text) for name, text in WORDS.items() if name != "big5"
    ):  # Dovecot's own limit
        result = await box.search(MailQuery(subject=said, most=100))
        assert len(result.mails) in (66, 67), charset
    assert await box.fetch("INBOX", found[500].uid, found[500].validity) == made[500].raw
    assert all(path.name.endswith(",") for path in mail_servers.stored("dora"))  # none is \Seen


def test_each_of_a_thousand_mails_is_understood() -> None:
    for mail in mails(1000):
        read = read_mail(mail.raw)
        assert read.subject == mail.subject
        assert str(read.sender[0]).startswith("Absender ")
        for text in mail.texts:
            assert text in (read.text or read.html), mail.subject
        files = [(file.name, file.data) for file in read.attachments if file.media_type != "message/rfc822"]
        assert tuple(files) == mail.attachments
        assert read.left_out == ()


@pytest.mark.bubblewrap
async def test_html_is_read_without_what_is_hidden() -> None:
    to_text = Looks(ViewLimits()).html
    for number, mail in enumerate(mails(12)):
        read = await trio.to_thread.run_sync(partial(read_mail, mail.raw))
        if read.html:
            text = await to_text(read.html)
            assert all(said in text for said in mail.texts)
            assert f"never{number}" not in text
