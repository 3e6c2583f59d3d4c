"""Rumi, a personal assistant that does real work in a sandbox.

`app` starts the supervision tree. Every folder beside it is one package; other packages use only what its
`__init__` exports. `docs/architecture.md` describes the packages.
"""

__version__ = "0.1.0"
