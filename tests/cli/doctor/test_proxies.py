"""What the doctor says about the proxies of the environment."""

from pathlib import Path

import pytest

from rumi.cli.doctor.check import Check
from rumi.cli.doctor.machine import machine
from rumi.platform.home import Home


def proxy_findings(folder: Path, monkeypatch: pytest.MonkeyPatch, **variables: str) -> list[Check]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name.lower(), raising=False)
        if name in variables:
            monkeypatch.setenv(name, variables[name])
        else:
            monkeypatch.delenv(name, raising=False)
    return [check for check in machine(Home(folder)) if check.name == "proxy"]


@pytest.mark.parametrize(
    ("variables", "verdict", "says"),
    [
        ({}, None, ""),
        ({"NO_PROXY": "localhost,[::1],fd00::/8,example.com:8080"}, None, ""),
        ({"NO_PROXY": "localhost,<local>"}, "warning", "NO_PROXY has entries that are not hosts"),
        ({"NO_PROXY": "10.*,a b"}, "warning", "10.*"),
        ({"HTTPS_PROXY": "http://me:canary@proxy:3128"}, "ok", "HTTPS_PROXY=http://proxy:3128"),
        ({"ALL_PROXY": "socks5h://proxy:1080"}, "ok", "ALL_PROXY=socks5h://proxy:1080"),
        ({"ALL_PROXY": "socks4://me:canary@proxy:1080"}, "failure", "ALL_PROXY names a proxy of the kind"),
        ({"HTTP_PROXY": "http://me:canary@proxy:x"}, "failure", "HTTP_PROXY is not the address of a proxy"),
    ],
)  # fmt: skip
def test_the_doctor_names_the_variable_and_no_password(
    variables: dict[str, str],
    verdict: str | None,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    findings = proxy_findings(tmp_path, monkeypatch, **variables)
    assert [check.verdict for check in findings] == ([] if verdict is None else [verdict])
    for check in findings:
        assert says in check.found
        assert "canary" not in f"{check.found}{check.fix}"
        assert bool(check.fix) == (verdict != "ok")
