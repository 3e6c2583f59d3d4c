"""The base of all other packages: configuration, texts, logs, files, identities. It imports none of them."""
