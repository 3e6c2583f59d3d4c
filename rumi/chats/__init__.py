"""Chats: one actor each, with a mailbox, a history, a sandbox, and at most one turn."""
