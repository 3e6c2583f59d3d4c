"""Fetches users' files and recordings, within limits."""

from rumi.channels.telegram.files.bring import TelegramFiles, Transcribes
from rumi.channels.telegram.files.download import MAX_BYTES, Patience

__all__ = ["MAX_BYTES", "Patience", "TelegramFiles", "Transcribes"]
