"""The base package: configuration, texts, logs, files and identities. It imports no other Rumi package."""
