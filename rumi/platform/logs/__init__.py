"""The audit log and the program's own log: how entries are written, selected, formatted and summed up."""
