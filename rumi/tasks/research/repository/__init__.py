"""Research in a git repository: the program fetches a clone, and tools read the clone in a sandbox."""
