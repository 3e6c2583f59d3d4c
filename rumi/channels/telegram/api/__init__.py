"""The Bot API: the library's bot with checked responses, and the classification of Telegram's refusals."""
