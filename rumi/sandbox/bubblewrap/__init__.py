"""The embedded engine: bubblewrap, a keeper beside each chat's sandbox, a new sandbox for every command."""
