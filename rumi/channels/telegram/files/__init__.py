"""Download of users' files and voice messages, within limits on size and time."""
