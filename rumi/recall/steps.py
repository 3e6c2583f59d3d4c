"""The register of the steps that execute requests to the recall."""

from rumi.steps import Steps

steps = Steps()
"""The functions of `following` and `search`."""
