"""The code blocks of an answer, for scripts that want nothing else of it."""

from dataclasses import dataclass

from rumi.channels.terminal.plain import PlainView
from rumi.channels.terminal.session import FAILURES, Settled
from rumi.channels.terminal.streams import Writer
from rumi.channels.terminal.words import Reader
from rumi.chats.events import ChatEvent, Replied
from rumi.platform.printable import clean
from rumi.texts import gettext


@dataclass(frozen=True, slots=True)
class FencedBlock:
    """A fenced code block: the language that it names, and its text, which ends with a newline."""

    language: str
    text: str


def first_block(answer: str) -> FencedBlock | None:
    """Return the first fenced code block of an answer in Markdown; None if it has none."""
    from markdown_it import MarkdownIt  # at first use: most commands print whole answers

    for token in MarkdownIt("commonmark").parse(answer):
        if token.type == "fence":
            return FencedBlock(token.info.strip().partition(" ")[0], token.content)
    return None


class CodeView(PlainView):
    """Prints only the first code block of an answer. Everything else goes to `errors`.

    `missing` is True after an answer without a code block.
    """

    def __init__(self, output: Writer, errors: Writer, reader: Reader, *, terminal: bool = False) -> None:
        super().__init__(output, errors, reader, failures_apart=True)
        self.missing = False
        self._terminal = terminal

    async def reply(self, event: ChatEvent, settled: Settled) -> None:
        """Write the code block exactly as the answer has it; on a terminal, without control characters."""
        if settled.finished is not None and settled.finished.reason in FAILURES:
            await super().reply(event, settled)
            return
        block = first_block(settled.reply.text)
        self.missing = block is None
        if block is not None:
            await self._output.write(clean(block.text) if self._terminal else block.text)
            return
        await self.notice(settled.reply.text)
        await self.notice(
            gettext(self._reader.language, "The answer has no code block, so nothing is printed.")
        )

    async def earlier(self, reply: Replied) -> None:
        """Write an earlier, unread reply to `errors`."""
        await self.notice(f"{gettext(self._reader.language, 'Earlier:')} {reply.text}")
