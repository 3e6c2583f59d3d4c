"""Where messages come from and where replies go: Telegram, the terminal, the page."""
