"""The embedded engine: bubblewrap, one keeper process per chat, and a new sandbox for every command."""
