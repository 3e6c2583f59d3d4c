"""The assistant's tools, each bound to one chat before a turn begins."""
