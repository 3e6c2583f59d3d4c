"""Converts bytes to text for a model, each page in a process that can be ended."""
