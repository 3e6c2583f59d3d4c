"""The parts of the supervision tree, from the top down: store, models, sandbox, agent, tasks, chats, edges.

Each part is a function that adds its actors below those of the parts before it, and returns a frozen record
of what the next parts use. `inputs` has what all of them are built from.
"""
