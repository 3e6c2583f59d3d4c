"""Completion of `@` with the paths below the working folder."""

from collections.abc import Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from rumi.channels.mentions import as_mention, dropped, offers


class PathCompleter(Completer):
    """Completes the path behind an `@`. It reads a folder, so it must run in a thread."""

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield the paths that begin with the text behind the `@`, folders first."""
        if document.text.startswith("!"):
            return
        for offer in offers(document.current_line_before_cursor):
            yield Completion(offer.text, start_position=-len(offer.typed), display=offer.label)


def pasted(text: str, document: Document) -> str:
    """Return the text to insert for a paste: paths of dropped files become mentions, except in a command."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if document.text.startswith("!") or not (paths := dropped(text)):
        return text
    before = document.char_before_cursor
    blank = " " if before and not before.isspace() else ""
    return blank + "".join(f"{as_mention(path)} " for path in paths)
