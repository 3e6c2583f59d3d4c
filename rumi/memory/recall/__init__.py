"""Recall: search in earlier conversations, through a separate index that is updated from the state."""
