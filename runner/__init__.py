"""What goes into the sandbox."""
