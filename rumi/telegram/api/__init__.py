"""The Bot API on the wire: the library's bot behind a guard, and what Telegram means when it refuses."""
