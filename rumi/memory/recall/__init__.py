"""Recall: search in earlier conversations, with an index of its own that follows the state."""
