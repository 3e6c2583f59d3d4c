"""The audit log and the program's own log: writing, selecting, formatting and summing up entries."""
