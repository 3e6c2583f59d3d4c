"""Download of users' files and voice messages, within limits of size and time."""
