"""Completion of chat commands and of names of models."""

from collections.abc import Iterable, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from rumi.channels.terminal.options import ModelName
from rumi.channels.terminal.words import Reader, commands

_MODEL = "/model "


class CommandCompleter(Completer):
    """Completes chat commands and names of models, but only at the beginning of a one-line message."""

    def __init__(self, reader: Reader, models: Sequence[ModelName] = ()) -> None:
        self._reader = reader
        self._models = models

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield the commands that begin with the text before the cursor."""
        before = document.text_before_cursor
        if not before.startswith("/") or "\n" in document.text:
            return
        for command, meaning in commands(self._reader.language):
            if command.startswith(before.lower()) and command != before:
                yield Completion(command, start_position=-len(before), display_meta=meaning)
        if before.lower().startswith(_MODEL) and self._models:
            from rumi.channels.terminal.choices import matches

            typed = before[len(_MODEL) :]
            for place in matches(typed.casefold(), [model.name.casefold() for model in self._models]):
                model = self._models[place]
                if model.name != typed:
                    yield Completion(model.name, start_position=-len(typed), display_meta=model.detail)
