"""Memory: long-term facts, each with one owner, and their extraction from sessions."""
