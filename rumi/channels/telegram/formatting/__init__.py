"""Markdown to messages: a model's text becomes parts that Telegram accepts, and nothing is lost."""
