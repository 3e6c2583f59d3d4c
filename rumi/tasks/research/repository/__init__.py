"""Research in a repository: its clone, which the program fetches, and the tools that read it in a sandbox."""
