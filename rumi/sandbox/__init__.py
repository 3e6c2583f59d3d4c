"""Sandboxes: one container for each chat, two engines, the command policy and the workspace.

Chats use `sandboxes`, which adds the actors to the tree: `sandbox`, one for each chat; `registry`, which
records the containers that may exist; and `disk`, which keeps a reserve of the file system while commands
run. `incoming` puts users' files into the workspace. `docker/` and `bubblewrap/` are the engines; `choose`
picks one of them.
"""
