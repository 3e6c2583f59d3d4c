"""One runnable file for each idea: `python -m actors.examples.asking` and so on. Each says what it prints."""
