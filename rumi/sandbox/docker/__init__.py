"""The Docker engine: containers of one daemon, driven through its Engine API."""
