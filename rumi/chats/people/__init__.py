"""People: the senders of messages, their roles, and the rights of these roles."""
