"""Receipt of Telegram's updates, by polling or by a webhook. Updates are checked, stored, then confirmed."""
