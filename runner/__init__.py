"""The content of sandboxes: the Dockerfile, and a root file system made from this host's own programs."""
