"""Rumi, a personal assistant that does real work in a sandbox.

`app` makes the supervision tree; every folder beside it is one room of the house, and what a room
offers to the others is what its `__init__` exports. `docs/architecture.md` has the plan.
"""

__version__ = "0.1.0"
