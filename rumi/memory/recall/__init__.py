"""Recall: search in earlier conversations, with a separate index that follows the stored conversations."""
