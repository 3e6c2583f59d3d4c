"""Tasks: work with an owner, a goal, a budget and a result, which survives a restart of the process."""
