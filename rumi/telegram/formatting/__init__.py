"""Markdown to messages: what a model writes becomes parts that Telegram takes, and nothing is lost."""

from rumi.telegram.formatting.reply import NOTHING, Part, format_preview, format_reply

__all__ = ["NOTHING", "Part", "format_preview", "format_reply"]
