"""Events as their senders document them: headers and bodies, shortened to a few fields of each kind."""

import json
import time
from base64 import b64encode
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import digest
from typing import Any, Literal
from urllib.parse import urlencode

SECRET = "a-secret-of-forty-characters-for-the-tests"
STANDARD = f"whsec_{b64encode(b'thirty-two bytes of a key, in all').decode()}"


@dataclass(frozen=True)
class Sample:
    """A request: how it is signed, its headers, its body, and a text that the model has to see of it."""

    name: str
    form: Literal["github", "standard", "plain"]
    value: Any
    shows: str
    headers: dict[str, str] = field(default_factory=dict)
    proof: str = ""
    as_form: bool = False

    @property
    def body(self) -> bytes:
        if isinstance(self.value, bytes):
            return self.value
        text = json.dumps(self.value)
        return urlencode({"payload": text}).encode() if self.as_form else text.encode()

    def proofs(self, body: bytes | None = None, secret: str = "", at: float | None = None) -> dict[str, str]:
        """The headers that prove that the sender knows the secret, made as the sender documents it."""
        body = self.body if body is None else body
        now = int(time.time() if at is None else at)
        key = (secret or SECRET).encode()
        hexadecimal = digest(key, body, sha256).hex()
        match self.proof:
            case "X-Hub-Signature-256" | "X-Hub-Signature" as name:
                return {name: f"sha256={hexadecimal}"}
            case "grafana-timed":
                signed = digest(key, f"{now}:".encode() + body, sha256).hex()
                return {
                    "X-Grafana-Alerting-Signature": signed,
                    "X-Grafana-Alerting-Signature-Timestamp": str(now),
                }
            case "webhook" | "svix" as name:
                id, key = self.headers[f"{name}-id"], (secret or STANDARD).removeprefix("whsec_").encode()
                from base64 import b64decode

                content = f"{id}.{now}.".encode() + body
                right = b64encode(digest(b64decode(key), content, sha256)).decode()
                # While a sender changes its secret, it signs twice; v1a is another algorithm.
                return {f"{name}-timestamp": str(now), f"{name}-signature": f"v1a,AAAA v1,AAAA v1,{right}"}
            case "Bearer" | "Token" as scheme:
                return {"Authorization": f"{scheme} {secret or SECRET}"}
            case "Basic":
                password = b64encode(f"alerts:{secret or SECRET}".encode()).decode()
                return {"Authorization": f"Basic {password}"}
            case "X-Gitlab-Token" | "X-Rumi-Secret" as name:
                return {name: secret or SECRET}
        return {self.proof: hexadecimal}


REPOSITORY = {
    "id": 186853002,
    "node_id": "MDEwOlJlcG9zaXRvcnkxODY4NTMwMDI=",
    "name": "Hello-World",
    "full_name": "Codertocat/Hello-World",
    "html_url": "https://github.com/Codertocat/Hello-World",
    "keys_url": "https://api.github.com/repos/Codertocat/Hello-World/keys{/key_id}",
    "hooks_url": "https://api.github.com/repos/Codertocat/Hello-World/hooks",
    "description": None,
    "fork": False,
}
SENDER = {"login": "Codertocat", "id": 21031067, "avatar_url": "https://a.test/u/1", "gravatar_id": ""}
COMMIT = {
    "id": "bffeb74224043ba2feb48d137756c8a9331c449a",
    "message": "Update README.md: fix the tests of the parser",
    "timestamp": "2026-05-15T15:20:41Z",
    "author": {"name": "Codertocat", "email": "c@example.org", "username": "Codertocat"},
    "added": [],
    "removed": [],
    "modified": ["README.md"],
}


def github(event: str, shows: str, as_form: bool = False, **value: Any) -> Sample:
    headers = {
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": f"72d3162e-cc78-11e3-81ab-{event}{as_form}",
        "X-GitHub-Hook-ID": "292430182",
        "User-Agent": "GitHub-Hookshot/044aadd",
        "Content-Type": "application/x-www-form-urlencoded" if as_form else "application/json",
    }
    value = {**value, "repository": REPOSITORY, "sender": SENDER}
    return Sample(f"github {event}", "github", value, shows, headers, "X-Hub-Signature-256", as_form)


RUN = {
    "id": 30433642,
    "name": "CI",
    "head_branch": "main",
    "run_number": 562,
    "status": "completed",
    "conclusion": "failure",
    "html_url": "https://github.com/Codertocat/Hello-World/actions/runs/30433642",
    "jobs_url": "https://api.github.com/repos/Codertocat/Hello-World/actions/runs/30433642/jobs",
}
ALERT = {
    "status": "firing",
    "labels": {"alertname": "HighMemory", "instance": "db1:9100", "severity": "critical"},
    "annotations": {"summary": "Memory of db1 is above 95 %", "runbook_url": "https://runbooks.test/memory"},
    "startsAt": "2026-10-12T09:51:03.157076+02:00",
    "endsAt": "0001-01-01T00:00:00Z",
    "generatorURL": "https://metrics.test/graph?g0.expr=up",
    "fingerprint": "c6eadffa33fcdf37",
}
ALERTS = {
    "receiver": "rumi",
    "status": "firing",
    "alerts": [ALERT],
    "groupLabels": {"alertname": "HighMemory"},
    "commonLabels": {"severity": "critical"},
    "commonAnnotations": {},
    "externalURL": "http://alertmanager.test:9093",
    "version": "4",
    "groupKey": '{}:{alertname="HighMemory"}',
    "truncatedAlerts": 0,
}
GRAFANA = {
    **ALERTS,
    "orgId": 1,
    "title": "[FIRING:1] HighMemory",
    "state": "alerting",
    "message": "**Firing**",
}
GITLAB = {
    "object_kind": "pipeline",
    "object_attributes": {"id": 31, "ref": "main", "status": "failed", "detailed_status": "failed"},
    "project": {"name": "Diaspora", "web_url": "https://gitlab.test/mike/diaspora"},
}
JSON = {"Content-Type": "application/json"}

SAMPLES = (
    github("push", "fix the tests of the parser", ref="refs/heads/main", commits=[COMMIT], forced=False),
    github("push", "fix the tests of the parser", True, ref="refs/heads/dev", commits=[COMMIT]),
    github("workflow_run", '"conclusion": "failure"', action="completed", workflow_run=RUN),
    github("issues", "Spelling error in the README", action="opened", issue={
        "number": 1, "title": "Spelling error in the README file", "body": None, "state": "open",
    }),
    github("pull_request", "Add a parser", action="opened", number=2, pull_request={
        "title": "Add a parser", "body": "It parses.\n\n## Why\n" + "because. " * 2000, "merged": False,
    }),
    Sample(
        "gitea push", "github", {"ref": "refs/heads/develop", "commits": [COMMIT]},
        "refs/heads/develop",
        {**JSON, "X-Gitea-Delivery": "f6266f16-1bf3", "X-Gitea-Event": "push"}, "X-Gitea-Signature",
    ),
    Sample(
        "forgejo issue", "github", {"action": "opened", "issue": {"title": "Cannot log in"}}, "Cannot log in",
        {**JSON, "X-Forgejo-Delivery": "a1b2", "X-Forgejo-Event": "issues"}, "X-Forgejo-Signature",
    ),
    Sample(
        "gogs push", "github", {"ref": "refs/heads/x", "commits": [COMMIT]}, "refs/heads/x",
        {**JSON, "X-Gogs-Delivery": "g-77", "X-Gogs-Event": "push"}, "X-Gogs-Signature",
    ),
    Sample(
        "bitbucket push", "github", {"push": {"changes": [{"new": {"name": "main"}}]}}, "changes",
        {**JSON, "X-Request-UUID": "11aa", "X-Event-Key": "repo:push"}, "X-Hub-Signature",
    ),
    Sample(
        "sentry issue", "github",
        {"action": "created", "data": {"issue": {"title": "ZeroDivisionError", "culprit": "app.views"}}},
        "ZeroDivisionError",
        {**JSON, "Request-ID": "77bb", "Sentry-Hook-Resource": "issue"}, "Sentry-Hook-Signature",
    ),
    Sample("grafana", "github", GRAFANA, "Memory of db1 is above 95", JSON, "X-Grafana-Alerting-Signature"),
    Sample("grafana with a time", "github", {**GRAFANA, "orgId": 2}, "HighMemory", JSON, "grafana-timed"),
    Sample(
        "gitlab, signed", "standard", GITLAB, '"status": "failed"',
        {**JSON, "webhook-id": "f5e5f430", "Idempotency-Key": "f5e5f430", "X-Gitlab-Event": "Pipeline Hook"},
        "webhook",
    ),
    Sample(
        "standard webhooks", "standard", {"type": "invoice.paid", "data": {"id": "in_1", "total": 1200}},
        "invoice.paid", {**JSON, "webhook-id": "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W"}, "webhook",
    ),
    Sample(
        "svix", "standard", {"event_type": "ping", "data": {"success": True}}, "event_type",
        {**JSON, "svix-id": "msg_p5jXN8AQM9LWM0D4loKWxJek"}, "svix",
    ),
    Sample(
        "a text", "standard", "Umlaute: äöü, 日本".encode(), "äöü, 日本",
        {"Content-Type": "text/plain; charset=utf-8", "webhook-id": "msg_text"}, "webhook",
    ),
    Sample("alertmanager", "plain", ALERTS, "Memory of db1 is above 95", JSON, "Bearer"),
    Sample("alertmanager, basic", "plain", {**ALERTS, "status": "resolved"}, "resolved", JSON, "Basic"),
    Sample(
        "home assistant", "plain", {"entity": "binary_sensor.front_door", "state": "on", "name": "Door"},
        "binary_sensor.front_door", {**JSON, "User-Agent": "HomeAssistant/2026.5.1"}, "Bearer",
    ),
    Sample(
        "uptime kuma", "plain",
        {"heartbeat": {"status": 0, "msg": "timeout of 48000ms exceeded"}, "monitor": {"name": "shop"}},
        "timeout of 48000ms", JSON, "X-Rumi-Secret",
    ),
    Sample(
        "gitlab, token", "plain", {**GITLAB, "builds": []}, "Diaspora",
        {**JSON, "X-Gitlab-Event": "Pipeline Hook", "X-Gitlab-Event-UUID": "13792a34"}, "X-Gitlab-Token",
    ),
    Sample("a form", "plain", b"title=Backup&text=done+in+3+min", "done in 3 min",
           {"Content-Type": "application/x-www-form-urlencoded"}, "Bearer"),
    Sample("curl -d", "plain", b'{"disk": "91 %"}', "91 %",
           {"Content-Type": "application/x-www-form-urlencoded"}, "Token"),
)  # fmt: skip
PING = github("ping", "", zen="Keep it logically awesome.", hook_id=1)
