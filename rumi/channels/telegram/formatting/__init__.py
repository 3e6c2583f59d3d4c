"""Markdown to messages: a model's text becomes parts that Telegram accepts, and nothing is lost."""

from rumi.channels.telegram.formatting.reply import NOTHING, Part, format_preview, format_reply

__all__ = ["NOTHING", "Part", "format_preview", "format_reply"]
