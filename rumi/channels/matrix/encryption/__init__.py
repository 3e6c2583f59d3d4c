"""End-to-end encryption of an account: its keys, and messages that only the members of a room can read."""
