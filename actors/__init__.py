"""The actor runtime."""
