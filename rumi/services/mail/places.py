"""Names of mails for models: the mailbox, the folder, its UIDVALIDITY and the UID, in one word."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

_ID: Final = re.compile(
    r"(?P<account>[^\s.:/]+):(?P<folder>[^\s:]+):(?P<validity>\d{1,12}):(?P<uid>\d{1,12})"
)


@dataclass(frozen=True, slots=True)
class MailPlace:
    """Where a mail is. `validity` is the folder's UIDVALIDITY: if the server numbers it anew, it changes."""

    account: str
    folder: str
    validity: int
    uid: int

    def __str__(self) -> str:
        return f"{self.account}:{quote(self.folder, safe='')}:{self.validity}:{self.uid}"


def place_in(text: object) -> MailPlace | None:
    """Parse the name of a mail; None if it is not one."""
    found = _ID.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None:
        return None
    return MailPlace(found["account"], unquote(found["folder"]), int(found["validity"]), int(found["uid"]))
