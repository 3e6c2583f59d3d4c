"""The Bot API: calls Telegram through python-telegram-bot, checks the responses, and classifies refusals."""
