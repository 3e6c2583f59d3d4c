"""The content of the sandbox: the Dockerfile, and a root file system of this host's own programs."""
