"""Fetches users' files and recordings, within limits."""

from rumi.telegram.files.bring import FileError, Patience, TelegramFiles, Transcribes
from rumi.telegram.files.download import MAX_BYTES

__all__ = ["MAX_BYTES", "FileError", "Patience", "TelegramFiles", "Transcribes"]
