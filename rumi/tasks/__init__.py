"""Tasks: work with an owner, a goal, a budget and a result. Tasks survive a restart of the process."""
