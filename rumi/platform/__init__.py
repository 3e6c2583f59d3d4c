"""What every other package may use: configuration, texts, logs, files, identities. It imports no other."""
