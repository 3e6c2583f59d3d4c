"""One SMTP connection, used in threads: `smtplib`, whose text and final line are sent in two steps.

Between the steps, the caller stores that the mail is handed over: the final line cannot be taken back.
"""

import base64
import re
import smtplib
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rumi.services.mail.connection import (
    MailLine,
    login_refused,
    not_encrypted,
    timed_out,
    tls_reason,
    unreachable,
)
from rumi.services.mail.errors import MailError, said
from rumi.services.mail.messages import SentMail
from rumi.services.mail.writing import Outgoing

_BARE_ENDS: Final = re.compile(rb"\r\n|\r|\n")
_DOTS: Final = re.compile(rb"(?m)^\.")
_NAME: Final = "[127.0.0.1]"
"""What the client calls itself: the name of a person's machine is nobody's business."""


class _Smtp(smtplib.SMTP):
    """`smtplib` on an open connection."""

    def __init__(self, line: MailLine, timeout_s: float) -> None:
        self._line = line
        super().__init__(timeout=timeout_s, local_hostname=_NAME)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        return self._line.sock

    def secure(self) -> None:
        """Switch to TLS (STARTTLS)."""
        code, words = self.docmd("STARTTLS")
        if code != 220:
            raise smtplib.SMTPResponseException(code, words)
        # What was heard before the encryption does not count any more.
        if self.file is not None:
            self.file.close()
            self.file = None
        self.sock = self._line.wrap()
        self.helo_resp = self.ehlo_resp = None
        self.esmtp_features = {}
        self.does_esmtp = False
        self.ehlo_or_helo_if_needed()


class SmtpSession:
    """A connection to an SMTP server. All methods block, and raise `MailError`."""

    def __init__(self, line: MailLine, timeout_s: float) -> None:
        self._line = line
        self._address = f"{line.host}:{line.port}"
        self._smtp = _Smtp(line, timeout_s)
        self._refused: tuple[tuple[str, str], ...] = ()

    def log_in(self, user: str, password: str) -> None:
        """Encrypt the connection, and log in if the server asks for it.

        Raises:
            MailError: The connection cannot be encrypted, or the server does not accept the login.
        """
        line, smtp = self._line, self._smtp
        with _errors(self._address):
            if line.begins_with_tls:
                line.wrap()
            code, words = smtp.connect(line.host, line.port)
            if code != 220:
                raise smtplib.SMTPResponseException(code, words)
            smtp.ehlo_or_helo_if_needed()
            if not line.begins_with_tls and not line.stays_here:
                if not smtp.has_extn("starttls"):
                    raise not_encrypted(self._address, "the server does not offer STARTTLS")
                smtp.secure()
            if smtp.has_extn("auth"):
                self._authenticate(user, password)
            elif not line.stays_here:
                raise login_refused(self._address, "the server offers no login")

    def _authenticate(self, user: str, password: str) -> None:
        offered = self._smtp.esmtp_features["auth"].upper().split()
        if "PLAIN" in offered or "LOGIN" not in offered:
            secret = _encoded(f"\0{user}\0{password}")
            code, words = self._smtp.docmd("AUTH", f"PLAIN {secret}")
        else:
            code, words = self._smtp.docmd("AUTH", "LOGIN")
            for secret in (user, password):
                if code == 334:
                    code, words = self._smtp.docmd(_encoded(secret))
        if code in (535, 534, 530, 504, 538):
            raise login_refused(self._address, said(words))
        if code not in (235, 503):
            raise smtplib.SMTPResponseException(code, words)

    def check(self) -> None:
        """Check that the server still answers."""
        with _errors(self._address):
            self._smtp.noop()

    def begin(self, mail: Outgoing) -> None:
        """Send the envelope and the text of a mail, but not the line that ends it.

        Raises:
            MailError: The server does not take the mail. Nothing was sent.
        """
        smtp = self._smtp
        with _errors(self._address):
            limit = smtp.esmtp_features.get("size", "")
            if limit.isdigit() and 0 < int(limit) < len(mail.raw):
                raise MailError(
                    "too_large",
                    "The mail has {size} bytes; the server takes at most {limit}.",
                    "Leave attachments out.",
                    size=len(mail.raw),
                    limit=limit,
                )
            options = [f"size={len(mail.raw)}"] if smtp.has_extn("size") else []
            if mail.needs_utf8:
                if not smtp.has_extn("smtputf8"):
                    raise MailError("refused", "The server takes only addresses in ASCII characters.")
                options.append("SMTPUTF8")
            self._expect(smtp.mail(mail.sender, options), 250)
            refused = []
            for recipient in mail.recipients:
                code, words = smtp.rcpt(recipient)
                if code not in (250, 251):
                    refused.append((recipient, f"{code} {said(words)}"))
            self._refused = tuple(refused)
            if len(refused) == len(mail.recipients):
                raise _refused(self._address, "; ".join(f"{who}: {why}" for who, why in refused))
            self._expect(smtp.docmd("DATA"), 354)
            text = _DOTS.sub(b"..", _BARE_ENDS.sub(b"\r\n", mail.raw))
            smtp.send(text if text.endswith(b"\r\n") else text + b"\r\n")

    def end(self) -> SentMail:
        """Send the line that ends the text, and return the server's answer.

        Raises:
            MailError: The server does not take the mail (`refused`), or its answer did not come (`unknown`).
        """
        try:
            self._smtp.send(b".\r\n")
            code, words = self._smtp.getreply()
        except OSError:  # smtplib's errors too
            code, words = -1, b""
        if 400 <= code < 600:
            raise _refused(self._address, f"{code} {said(words)}")
        if code != 250:
            raise unknown_outcome()
        return SentMail(said(words), self._refused)

    def close(self) -> None:
        """Close the file through which the connection is read."""
        self._smtp.close()

    def quit(self) -> None:
        """Say goodbye, if the server still listens."""
        with _errors(self._address):
            self._smtp.quit()

    @staticmethod
    def _expect(reply: tuple[int, bytes], code: int) -> None:
        if reply[0] != code:
            raise smtplib.SMTPResponseException(*reply)


def unknown_outcome() -> MailError:
    """Return the error for a mail that was handed over, and whose server gave no answer."""
    return MailError(
        "unknown",
        "The connection broke after the mail was handed over, so nobody knows if it was sent.",
        "Look into the folder of sent mails before you send it again.",
    )


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _refused(address: str, words: str) -> MailError:
    return MailError(
        "refused", "The mail server {address} refuses this: {words}", address=address, words=words
    )


@contextmanager
def _errors(address: str) -> Iterator[None]:
    """Raise the errors of `smtplib` and of sockets as a `MailError`."""
    try:
        yield
    except TimeoutError:
        raise timed_out(address) from None
    except ssl.SSLError as error:
        raise not_encrypted(address, tls_reason(error)) from None
    except smtplib.SMTPServerDisconnected as error:
        late = isinstance(error.__context__, TimeoutError)
        raise (timed_out(address) if late else unreachable(address, error)) from None
    except smtplib.SMTPResponseException as error:
        raise _refused(address, f"{error.smtp_code} {said(error.smtp_error)}") from None
    except smtplib.SMTPException as error:
        raise _refused(address, said(error)) from None
    except OSError as error:
        raise unreachable(address, error) from None
    except ValueError:
        raise _refused(address, "its answer is not valid SMTP") from None
