"""What the tests of servers of tools share: what a process has learned of logins does not outlive a test."""

import pytest

from rumi.agent.mcp.oauth import flow, logins
from rumi.platform import redact


@pytest.fixture(autouse=True)
def learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process learn its secrets anew: otherwise later tests would hide these."""
    fresh = redact.LearnedSecrets()
    for module in (redact, flow, logins):
        monkeypatch.setattr(module, "LEARNED", fresh)
