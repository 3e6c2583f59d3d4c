"""Tasks: work with an owner, a goal, a budget and a result; tasks survive a restart of the process."""
