"""Conversion of a model's Markdown to messages that Telegram accepts. No word is lost."""
