"""Downloads users' files and voice messages, within limits."""
