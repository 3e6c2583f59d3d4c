"""The register of the steps that execute requests to the recall."""

from rumi.memory.recall.state import Indexing
from rumi.store.steps import Steps

steps: Steps[Indexing] = Steps()
"""The functions of `following` and `search`."""
