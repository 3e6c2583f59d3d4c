"""The register of the steps that execute requests to the recall."""

from rumi.store.steps import Steps

steps = Steps()
"""The functions of `following` and `search`."""
