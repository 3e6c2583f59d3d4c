"""The Bot API on the wire: the library's bot behind a guard, and the meaning of Telegram's refusals."""
