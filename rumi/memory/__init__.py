"""Memory: facts that last, each with one owner, and their extraction from a session."""
