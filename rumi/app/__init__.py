"""The running program: the supervision tree, the daemon, and the daemon's calls for other processes."""
