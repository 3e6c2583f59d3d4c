"""Recall: what was said before, found again. An index of its own, which follows the state."""
