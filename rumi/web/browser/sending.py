"""Decides which requests of a page are sent, by what the browser really does and not by a label.

The mode of a page is set at each step, and holds until the next:

- `page`: after a page was opened or filled in. Its scripts may send what they like, as in any browser: what a
  site does by itself is the site's own doing. A form is not sent.
- `nothing`: after a click that nobody was asked about, on a link or on something that unfolds. Only GET
  requests are sent.
- `approved`: after a press that a person has approved. One form is sent, to the origins of the question.

Requests that no page can be found for, as those of shared workers, are judged by the strictest mode.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from rumi.web.browser.messages import Sending

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_STRICTEST: Final[tuple[Sending, ...]] = ("nothing", "page", "approved")


@dataclass(slots=True)
class Mode:
    """The mode of one page. An approved form may be sent to `origins`; `sent` is True after it.

    `refused` are the methods and the origins of what was not sent since the last step.
    """

    sending: Sending = "page"
    origins: frozenset[str] = frozenset()
    sent: bool = False
    refused: list[tuple[str, str]] = field(default_factory=list)

    def begin(self, sending: Sending, origins: Collection[str] = ()) -> None:
        """Begin a step."""
        self.sending, self.origins, self.sent = sending, frozenset(origins), False
        self.refused.clear()

    def allows(self, method: str, origin: str, *, document: bool, redirected: bool = False) -> bool:
        """Return True if a request may be sent. An allowed form uses the approval up.

        `document` means that the answer is shown as a page or a frame, as that of a form is. `redirected` is
        True for the request that follows a redirect; a form's may stay a form.
        """
        if method.upper() in _READING:
            return True
        if self.sending == "nothing":
            return False
        if not document:
            return True
        if self.sending != "approved" or origin not in self.origins or (self.sent and not redirected):
            return False
        self.sent = True
        return True


def strictest(modes: Iterable[Mode]) -> Mode:
    """Return the strictest of several modes; that of a page which was just opened if there is none."""
    return min(modes, key=lambda mode: _STRICTEST.index(mode.sending), default=Mode())
