"""Runnable examples, one per idea: `python -m actors.examples.asking`. Each docstring shows the output."""
