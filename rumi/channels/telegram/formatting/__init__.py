"""Conversion of Markdown: a model's text becomes messages that Telegram accepts, without losing a word."""
