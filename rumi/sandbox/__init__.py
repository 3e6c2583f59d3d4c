"""Sandboxes: one container per chat, two engines, the command policy and the workspaces.

`sandboxes` is the interface for chats; it adds three kinds of actors to the tree: `sandbox`, one per chat;
`registry`, which records the containers that may exist; and `disk`, which keeps some disk space
free for Rumi while commands run. `incoming` stores users' uploads in the workspace. `docker/` and
`bubblewrap/` are the engines; `choose` selects one of them.
"""
