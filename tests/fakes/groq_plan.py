"""What Groq's plans allow, and its real words and headers where a request goes beyond."""

import json
import math
from dataclasses import dataclass, field

import trio

from tests.fakes.groq_replies import Body, Fail

ORGANISATION = "org_01jfake0000000000000000000"
UPGRADE = "Need more tokens? Upgrade to Dev Tier today at https://console.groq.com/settings/billing"


def counted_tokens(body: Body) -> int:
    """What counts beforehand: the prompt, and the most that the reply may take, where it says so."""
    prompt = json.dumps([body["messages"], body.get("tools", [])], ensure_ascii=False)
    return len(prompt.encode()) // 4 + int(body.get("max_completion_tokens", 0))


@dataclass
class Plan:
    """The plan of an organisation, of tokens a minute; free is 8,000 for gpt-oss.

    `minute_s` is how long its minute is: tests are in a hurry. `refused` counts what was too large,
    `limited` what came too early. `largest` is the largest request that was let through.
    """

    tokens: int = 8000
    requests: int = 1000
    minute_s: float = 60.0
    refused: int = 0
    limited: int = 0
    largest: int = 0
    _used: float = 0.0
    _since: float = field(default=-math.inf)

    def refusal(self, body: Body) -> Fail | None:
        """Groq's answer where the request goes beyond the plan; None where it is let through."""
        wanted, model = counted_tokens(body), body["model"]
        where = f"model `{model}` in organization `{ORGANISATION}` service tier `on_demand`"
        if wanted > self.tokens:
            self.refused += 1
            return self._fail(
                413,
                f"Request too large for {where} on tokens per minute (TPM): Limit {self.tokens}, Requested "
                f"{wanted}, please reduce your message size and try again. {UPGRADE}",
            )
        now = trio.current_time()
        rate = self.tokens / self.minute_s
        self._used, self._since = max(0.0, self._used - (now - self._since) * rate), now
        if self._used + wanted > self.tokens:
            self.limited += 1
            wait_s = (self._used + wanted - self.tokens) / rate
            return self._fail(
                429,
                f"Rate limit reached for {where} on tokens per minute (TPM): Limit {self.tokens}, Used "
                f"{self._used:.0f}, Requested {wanted}. Please try again in {wait_s:.4g}s. {UPGRADE}",
                {"retry-after": f"{math.ceil(wait_s)}"},
            )
        self._used += wanted
        self.largest = max(self.largest, wanted)
        return None

    def headers(self) -> dict[str, str]:
        """What stands in the head of each answer."""
        return {
            "x-ratelimit-limit-requests": f"{self.requests}",
            "x-ratelimit-limit-tokens": f"{self.tokens}",
            "x-ratelimit-remaining-requests": f"{self.requests - 1}",
            "x-ratelimit-remaining-tokens": f"{max(0.0, self.tokens - self._used):.0f}",
            "x-ratelimit-reset-requests": "1m26.4s",
            "x-ratelimit-reset-tokens": f"{self._used / self.tokens * self.minute_s * 1000:.0f}ms",
        }

    def _fail(self, status: int, message: str, headers: dict[str, str] | None = None) -> Fail:
        error = {"message": message, "type": "tokens", "code": "rate_limit_exceeded"}
        return Fail(status, headers={**self.headers(), **(headers or {})}, body={"error": error})


NOT_A_CALL = "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details."


def tool_use_failed(failed_generation: str, message: str = NOT_A_CALL) -> Fail:
    """Groq's answer where it cannot read what a model wrote as a tool call."""
    error = {
        "message": message,
        "type": "invalid_request_error",
        "code": "tool_use_failed",
        "failed_generation": failed_generation,
    }
    return Fail(400, body={"error": error})
