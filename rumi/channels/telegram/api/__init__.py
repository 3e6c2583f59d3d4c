"""The Bot API: the library's bot behind a guard, and the classification of Telegram's refusals."""
