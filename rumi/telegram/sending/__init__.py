"""Replies out: the outbox reaches Telegram in order per chat, within its limits, and turns are seen."""
