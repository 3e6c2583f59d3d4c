"""The embedded engine: bubblewrap, a keeper beside each chat's sandbox, a fresh one for every command."""
