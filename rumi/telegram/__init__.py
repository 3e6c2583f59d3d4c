"""Telegram: updates in, replies out. The only room that knows python-telegram-bot."""
