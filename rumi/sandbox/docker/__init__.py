"""The Docker engine: containers of one daemon, controlled through its Engine API."""
