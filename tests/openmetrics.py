"""Reads OpenMetrics with the parser of Prometheus' own client, and compares the names with the documents."""

from pathlib import Path

import httpx
from prometheus_client.openmetrics.parser import text_string_to_metric_families

ROOT = Path(__file__).resolve().parents[1]
CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def openmetrics(answer: httpx.Response) -> dict[str, float]:
    """Each sample of an answer, by its name and labels. Each name must be in docs/operations.md."""
    assert answer.status_code == 200
    assert answer.headers["content-type"] == CONTENT_TYPE
    assert answer.text.endswith("\n# EOF\n")
    listed = (ROOT / "docs" / "operations.md").read_text()
    values = {}
    for family in text_string_to_metric_families(answer.text):
        assert family.documentation.endswith("."), family.name
        shown = family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")
        assert f"`{shown}`" in listed, shown
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            values[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return values
