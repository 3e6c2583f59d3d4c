"""Fetches users' files and recordings, within limits."""

from rumi.channels.telegram.files.bring import FileError, Patience, TelegramFiles, Transcribes
from rumi.channels.telegram.files.download import MAX_BYTES

__all__ = ["MAX_BYTES", "FileError", "Patience", "TelegramFiles", "Transcribes"]
