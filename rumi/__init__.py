"""Rumi, a personal assistant that does real work in a sandbox.

`rumi.app` starts the supervision tree. Each subfolder of `rumi` is one package; other packages use only what
its `__init__` exports. `docs/architecture.md` describes the packages.
"""

__version__ = "0.3.0"
