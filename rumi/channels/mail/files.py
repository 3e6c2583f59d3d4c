"""Files of mails: fetched again from the mailbox, and stored in the chat's workspace."""

from functools import partial
from io import BytesIO
from typing import Protocol

import trio

from rumi.channels.channel import Process
from rumi.channels.mail.delivery import Sends
from rumi.channels.mail.watcher import ListsMails
from rumi.errors import FileError
from rumi.platform.spooled_file import check_cancelled
from rumi.platform.threads import Offload
from rumi.sandbox.incoming import about_file, put_file
from rumi.services.mail.errors import MailError
from rumi.services.mail.reading import read_mail
from rumi.store.journal.records import Attachment


class ChannelMailbox(ListsMails, Sends, Protocol):
    """The mailbox of the channel: `rumi.services.mail.client.Mailbox`."""

    async def fetch(self, folder: str, uid: int, validity: int | None = None) -> bytes:
        """Return a mail as it is stored."""
        ...


class MailFiles:
    """Fetches the attachments of mails. `in_memory` limits the number of mails that are in memory at once."""

    def __init__(
        self,
        box: ChannelMailbox,
        process: Process,
        offload: Offload,
        in_memory: trio.CapacityLimiter,
        max_bytes: int,
    ) -> None:
        self._box = box
        self._process = process
        self._offload = offload
        self._in_memory = in_memory
        self._max_bytes = max_bytes

    async def bring(self, chat: str, attachment: Attachment) -> str:
        """Store a file of a mail in the chat's workspace; return the text about it for the model.

        Raises:
            RumiError: The mail is not there any more, or the file cannot be stored.
        """
        try:
            folder, validity, uid, number = attachment.reference.rsplit("/", 3)
            async with self._in_memory:
                raw = await self._box.fetch(folder, int(uid), int(validity))
                return await self._offload(partial(self._put, chat, attachment, raw, int(number)))
        except MailError as error:
            raise FileError("{error}", error=error.message) from None
        except ValueError:
            raise FileError("Its mail is unknown.") from None

    def _put(self, chat: str, attachment: Attachment, raw: bytes, number: int) -> str:
        file = next((one for one in read_mail(raw).attachments if one.number == number), None)
        if file is None:
            raise FileError("The mail has no such file.")
        name = put_file(
            self._process.files.ready(chat),
            attachment.name,
            BytesIO(file.data),
            user=self._process.user,
            limits=self._process.limits,
            max_bytes=self._max_bytes,
            checkpoint=check_cancelled,
            reuse=True,
        )
        return about_file(name, attachment.media_type, file.size)
