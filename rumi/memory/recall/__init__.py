"""Recall: searches earlier conversations by means of an index, which is updated when they change."""
