"""The parts of the supervision tree, from the top down: store, models, sandbox, agent, tasks, chats, edges.

The function of each part adds its actors below those of the earlier parts, and returns a record of what the
later parts need. `inputs` defines the values from which all parts are built.
"""
