"""The running program: the supervision tree, the process that holds the home, and its calls for others."""
