"""Writes the mails of the channel: replies and files, in the thread of the mail that they answer."""

from collections.abc import Sequence
from typing import Final

from rumi.channels import markdown
from rumi.channels.mail.words import answer_subject
from rumi.services.mail.writing import Attached, Draft, Outgoing, Recipient, written
from rumi.store.journal.mails import Envelope

_HEADERS: Final = (("Auto-Submitted", "auto-replied"), ("X-Rumi", "reply"))
"""RFC 3834: programs that answer by themselves do not answer these. `X-Rumi` finds mails that come back."""


def reply_mail(
    envelope: Envelope,
    sender: Recipient,
    text: str,
    token: str,
    at: float,
    attached: Sequence[Attached] = (),
) -> Outgoing:
    """Write an answer whose text is Markdown, which becomes HTML too. Its Message-ID follows from `token`.

    Raises:
        MailError: The envelope cannot be used.
    """
    draft = Draft(
        sender=sender,
        to=(Recipient(envelope.to),),
        subject=answer_subject(envelope.subject),
        text=text,
        attached=tuple(attached),
        in_reply_to=envelope.message_id,
        references=envelope.references,
        headers=_HEADERS,
        html=html_of(text),
    )
    return written(draft, token, at)


def html_of(text: str) -> str:
    """Return Markdown as HTML that loads nothing, so opening a mail tells nobody."""
    return f"<!DOCTYPE html><html><body>{markdown.html_of(text)}</body></html>"
