"""What people read, in Spanish and English: the one place that says it."""
