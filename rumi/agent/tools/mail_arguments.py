"""The arguments of the tools that write mails, checked, and what people and models are told about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rumi.platform.untrusted_text import one_line
from rumi.texts import Text

if TYPE_CHECKING:
    from rumi.services.mail.sending import Delivered
    from rumi.services.mail.writing import Recipient

MOST_TEXT: Final = 40_000
"""Maximum length of a mail's text: a question about a longer one is never asked."""

_MOST_ATTACHED: Final = 20


@dataclass(frozen=True, slots=True)
class AskedMail:
    """The arguments of a call, checked."""

    to: tuple[Recipient, ...]
    cc: tuple[Recipient, ...]
    bcc: tuple[Recipient, ...]
    subject: str
    text: str
    reply_to: str
    attachments: tuple[str, ...]


def asked_mail(arguments: Mapping[str, object]) -> AskedMail | str:
    """Return the checked arguments, or the text that says which one is not valid."""
    from rumi.services.mail.errors import MailError
    from rumi.services.mail.writing import recipients_of

    people: dict[str, tuple[Recipient, ...]] = {}
    for name in ("to", "cc", "bcc"):
        texts = _texts(arguments.get(name))
        if texts is None:
            return Text("`{name}` is a list of addresses", name=name)
        try:
            people[name] = recipients_of(texts)
        except MailError as error:
            return error.text
    paths = _texts(arguments.get("attachments"))
    subject, text = arguments.get("subject"), arguments.get("text")
    reply_to = arguments.get("reply_to_id") or ""
    if paths is None or not all(isinstance(value, str) for value in (subject, text, reply_to)):
        return Text("`subject` and `text` are texts, and `attachments` is a list of paths")
    if len(str(text)) > MOST_TEXT or len(paths) > _MOST_ATTACHED:
        return Text(
            "a mail has at most {chars} characters and {files} attachments",
            chars=MOST_TEXT,
            files=_MOST_ATTACHED,
        )
    if any(ord(character) < 32 or character in "\x7f\x85\u2028\u2029" for character in str(subject)):
        return Text("`subject` is one line")
    return AskedMail(
        people["to"], people["cc"], people["bcc"], str(subject), str(text), str(reply_to), tuple(paths)
    )


def _texts(value: object) -> Sequence[str] | None:
    """Read a list of texts: models also write one as a text, and none as null."""
    if value in (None, ""):
        return ()
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        return None
    return tuple(item for item in items if item.strip())


def told_recipient(one: Recipient) -> str:
    """Return a recipient as the question shows it: the real address first, and what is odd about it."""
    from rumi.services.mail.senders import unusual_domain

    local, _, domain = one.address.rpartition("@")
    odd = unusual_domain(domain) or ("" if local.isascii() else f"{local} has other than plain letters")
    parts = (one.address, f"“{one.name}”" if one.name else "", f"({odd})" if odd else "")
    return " ".join(filter(None, parts))


def report_of(done: Delivered, asked: AskedMail) -> str:
    """Return who got a mail and who did not, and whether a copy was stored."""
    refused = dict(done.sent.refused)
    everyone = [one.address for one in (*asked.to, *asked.cc, *asked.bcc)]
    lines = [f"sent to {', '.join(address for address in everyone if address not in refused)}"]
    lines += [f"NOT sent to {address}: {one_line(words, 200)}" for address, words in refused.items()]
    if done.copy_failed:
        lines.append(f"The copy in the folder of sent mails failed: {one_line(done.copy_failed, 200)}")
    return "\n".join(lines)
