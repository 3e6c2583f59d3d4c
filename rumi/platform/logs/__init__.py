"""Reads the audit log for a person: selects entries, formats them, and sums them up."""
