"""What users send besides words, fetched within bounds."""

from rumi.telegram.files.bring import FileError, Patience, TelegramFiles, Transcribes

__all__ = ["FileError", "Patience", "TelegramFiles", "Transcribes"]
