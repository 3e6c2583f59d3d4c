"""Chats: each is an actor with a mailbox, a history, a sandbox, and at most one running turn."""
