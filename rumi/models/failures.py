"""Conversion of errors from model servers to a `ModelError` with a message that users understand.

A `ModelError` never contains a key. The server's text is scrubbed before it is cut to length, because cutting
first could leave half a key. A URL is shown only as scheme, host and port.
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from rumi.models.dialects.endings import Ending
from rumi.models.dialects.reported_errors import error_object, is_filtered, status_in
from rumi.models.model import FailureKind, ModelError, TooLarge
from rumi.models.rates import reset_s, retry_after_s, retry_in
from rumi.models.too_long import plan_of, refusal_for_size
from rumi.platform.proxies import proxies
from rumi.platform.redact import HIDDEN, Redactor
from rumi.texts import Text

MAX_DETAIL_CHARS: Final = 300

_PARTLY_MASKED = re.compile(r"(?i)\bbearer\s+\S+|\b(?:gsk|sk|pk|key)[-_][\w*.-]{6,}")
"""Pattern of keys that servers quote in errors partly masked with stars, which the redactor does not know."""
_ORGANISATION = re.compile(r"(?: in organization)? ?`?\borg[-_]\w{6,}`?")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]+")
_NOT_A_CALL: Final = "Failed to call a function."
"""The start of an error text from Groq that is meant for programmers, and is not shown to users."""
_MODEL_WORDS = re.compile(r"(?i)\bmodels?\b|deployment|endpoints? found")
_NO_CREDIT = re.compile(r"(?i)credit balance is too low|insufficient (?:balance|credits|quota)")


def scrub(text: str, redact: Redactor) -> str:
    """Return `text` without secrets, strings that look like keys, account ids and control characters.

    The result is cut to `MAX_DETAIL_CHARS`.
    """
    text = _PARTLY_MASKED.sub(HIDDEN, redact.text(text))
    text = _ORGANISATION.sub("", text)
    text = _UNPRINTABLE.sub(" ", text).strip()
    return text if len(text) <= MAX_DETAIL_CHARS else text[:MAX_DETAIL_CHARS] + "…"


def shown_url(url: str) -> str:
    """Return only scheme, host and port of a URL, because the other parts may contain a secret."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")


class Failures:
    """Creates the errors for one model at one server.

    `key_name` and `url_name` are the names of the settings for the server's key and address. `redact` removes
    that key and the other secrets of this installation from a text.
    """

    def __init__(
        self,
        *,
        model: str,
        url: str,
        key: str,
        key_name: str,
        timeout_s: float,
        redact: Redactor,
        first_s: float | None = None,
        url_name: str = "",
    ) -> None:
        self._model = model
        self._host = shown_url(url)
        self._url = url
        self._url_name = url_name
        self._key = key
        self._key_name = key_name
        self._redact = redact
        self._timeout_s = timeout_s
        self._first_s = first_s or timeout_s

    def silent(self, *, begun: bool = True) -> ModelError:
        """Return the error for a timeout. `begun` is True if a part of the reply had arrived."""
        seconds, key = (self._timeout_s, "timeout_s") if begun else (self._first_s, "first_token_timeout_s")
        return self._error(
            "timeout",
            Text("{model} said nothing for {seconds} s", model=self._model, seconds=f"{seconds:g}"),
            advice=Text("Try again, or set a longer model.{key}.", key=key),
        )

    def no_answer(self, cause: BaseException) -> ModelError:
        """Return the error for an httpx failure: no connection to the server, or a broken connection."""
        import httpx

        words = str(cause) or type(cause).__name__
        if not isinstance(
            cause, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError | httpx.UnsupportedProtocol
        ):
            return self.cut(words)
        proxy = proxies().to_url(self._host)
        if proxy is not None:
            text = Text(
                "cannot connect to {host} through the proxy of {name}", host=self._host, name=proxy.variable
            )
            advice = Text("Check the network, and {name}.", name=proxy.variable)
            return self._error("unreachable", text, words, advice=advice)
        advice = Text("Check the network, and the server's address.")
        return self._error(
            "unreachable", Text("cannot connect to {host}", host=self._host), words, advice=advice
        )

    def cut(self, cause: str = "") -> ModelError:
        """Return the error for a connection that ended before the reply did."""
        return self._error(
            "unreachable", Text("the connection was cut while {model} answered", model=self._model), cause
        )

    def malformed(self, how: str) -> ModelError:
        """Return the error for an answer that is not a chat completion."""
        return self._error(
            "malformed", Text("{host} does not answer as a chat model does", host=self._host), how
        )

    def other_api(self, said: str) -> ModelError:
        """Return the error for an answer of something else than a chat model's API, such as a web page."""
        return self._error(
            "malformed",
            Text("{host} does not answer as a chat model does", host=self._host),
            str(error_object(said)["message"] or said) or Text("it sent a web page"),
            advice=self._check_address(),
        )

    def ended(self, ending: Ending, reason: str) -> ModelError:
        """Return the error for a reply that its server ended before it was complete, for this reason."""
        detail = Text("finish reason: {finish_reason}", finish_reason=reason)
        if ending == "filtered":
            return self._filtered(detail)
        if ending == "malformed":
            text = Text("{model} wrote a tool call that its server cannot read", model=self._model)
            return self._error("malformed", text, detail)
        return self._error(
            "server", Text("{model} stopped before the end of its answer", model=self._model), detail
        )

    def _filtered(self, detail: str) -> ModelError:
        return self._error(
            "filtered",
            Text("{model} refused, or a content filter stopped it", model=self._model),
            detail,
            advice=Text("Ask in other words, or choose another model."),
        )

    def _check_address(self) -> Text:
        """Return the advice to look at the server's address, with the likely mistake."""
        path, name = urlsplit(self._url).path.rstrip("/"), self._url_name
        if "/v1/v1" in f"{path}/":
            return Text("Check {setting}: it has /v1 twice.", setting=name)
        if path.endswith(("/chat/completions", "/messages", "/api/chat")):
            return Text("Check {setting}: leave out the path of the chat at its end.", setting=name)
        if not path:
            return Text("Check {setting}: many servers need /v1 at the end of the address.", setting=name)
        return Text("Check {setting}: is it the address of a model server's API?", setting=name)

    def empty(self, finish_reason: str) -> ModelError:
        """Return the error for a reply with neither text nor tool calls."""
        return self._error(
            "empty",
            Text("{model} gave an empty reply", model=self._model),
            Text("finish reason: {finish_reason}", finish_reason=finish_reason),
        )

    def from_status(self, status: int, body: object, headers: Mapping[str, str]) -> ModelError:
        """Return the error for an answer with an error status."""
        error, seconds = error_object(body), retry_after_s(headers)
        if seconds is None:
            seconds = retry_in(error)
        if seconds is None and status in (429, 503, 529):
            seconds = reset_s(headers)
        return self._from_server(status, error, seconds)

    def from_stream(self, error: object) -> ModelError:
        """Return the error for a failure that the server reported in the middle of its stream."""
        fields = error_object({"error": error})
        return self._from_server(status_in(fields), fields, retry_in(fields))

    def _from_server(
        self, status: int, error: Mapping[str, object], retry_after_s: float | None
    ) -> ModelError:
        said = str(error.get("message") or "")
        code = error.get("code")
        if not isinstance(code, str) or not code:  # llama.cpp's server repeats the status there
            code = str(error.get("type") or "")
        model, host = self._model, self._host
        if is_filtered(error):
            return self._filtered(said)
        if status in (404, 405) and not _names_a_model(code, said):
            return self._error(
                "not_found",
                Text("{host} has no chat API at the configured address ({status})", host=host, status=status),
                said,
                advice=self._check_address(),
            )
        param = error.get("param")  # some servers write the reason there
        told = refusal_for_size(status, code, f"{said} {param}" if isinstance(param, str) else said, error)
        kind = _kind(status, code, said, for_size=told is not None)
        if kind == "auth" and _is_about_money(status, code, said):
            advice = Text("Add credit there, or choose another model.")
            return self._error(
                kind,
                Text("{host} has no credit left for {model}", host=host, model=model),
                said,
                advice=advice,
            )
        if kind == "auth":
            where = (
                Text("Check {key_name}.", key_name=self._key_name)
                if self._key
                else Text("Set {key_name}.", key_name=self._key_name)
            )
            return self._error(
                kind, Text("{host} refused the key for {model}", host=host, model=model), said, advice=where
            )
        if kind == "not_found":
            advice = Text("Choose another model with model.default or --model.")
            return self._error(
                kind, Text("{host} does not know {model}", host=host, model=model), said, advice=advice
            )
        if kind == "too_large" and told is not None and told.reply is not None:
            advice = Text("Set a smaller model.max_output_tokens.")
            text = Text("{model} does not write replies as long as were asked for", model=model)
            return self._error(kind, text, said, advice=advice, too_large=told, status=status)
        if kind == "too_large":
            advice = Text("Use /reset, a shorter message, or a model with more room.")
            return self._error(
                kind,
                Text("the conversation is too large for {model}", model=model),
                said,
                advice=advice,
                too_large=told if told != TooLarge() else None,
                status=status,
            )
        if kind == "rate_limited":
            return self._error(
                kind,
                Text("{model} has reached its rate limit", model=model),
                said,
                retry_after_s=retry_after_s,
                too_large=plan_of(said),
            )
        if kind == "malformed":
            return self._error(
                kind,
                Text("{model} wrote a tool call that its server cannot read", model=model),
                "" if said.startswith(_NOT_A_CALL) else said,
                failed_generation=str(error.get("failed_generation") or ""),
            )
        if kind == "server":
            text = Text("{host} failed ({status})", host=host, status=status)
            return self._error(kind, text, said, retry_after_s=retry_after_s, status=status)
        if 300 <= status < 400:
            advice = Text(
                "Rumi does not follow redirects, because they would get the key: set the final address."
            )
            return self._error(
                kind, Text("{host} redirects elsewhere ({status})", host=host, status=status), advice=advice
            )
        text = Text("{host} refused the request ({status})", host=host, status=status)
        return self._error(kind, text, said, status=status)

    def _error(
        self,
        kind: FailureKind,
        message: str,
        detail: str = "",
        *,
        advice: str = "",
        retry_after_s: float | None = None,
        too_large: TooLarge | None = None,
        failed_generation: str = "",
        status: int | None = None,
    ) -> ModelError:
        detail = scrub(detail, self._redact)
        return ModelError(
            kind,
            sentence(message, detail),
            advice,
            retry_after_s=retry_after_s,
            detail=detail,
            model=self._model,
            too_large=too_large,
            failed_generation=failed_generation,
            status=status,
        )


def sentence(message: str, detail: str) -> Text:
    """Return a sentence with one full stop at its end: the message, and a server's text if there is one."""
    if detail := detail.rstrip(". "):
        return Text("{message}: {detail}.", message=message, detail=detail)
    return Text("{message}.", message=message)


def _names_a_model(code: str, said: str) -> bool:
    """Return True if a 404 is about the model. Without a text it may be about anything."""
    return "model" in code or _MODEL_WORDS.search(said) is not None


def _is_about_money(status: int, code: str, said: str) -> bool:
    money = code in {"insufficient_quota", "billing_error"} or _NO_CREDIT.search(said) is not None
    return status == 402 or (money and status in {400, 403, 429})


def _kind(status: int, code: str, said: str, *, for_size: bool) -> FailureKind:
    if code in {"tool_use_failed", "json_validate_failed"}:
        return "malformed"  # the model's mistake: the same request may succeed the next time
    if code in {"model_not_found", "model_decommissioned", "model_not_active"} or status == 404:
        return "not_found"
    if code in {"invalid_api_key", "authentication_error"} or status in {401, 403}:
        return "auth"
    if _is_about_money(status, code, said):  # waiting does not help
        return "auth"
    if for_size:
        return "too_large"
    if status == 429 or code in {"rate_limit_exceeded", "rate_limit_error"}:
        return "rate_limited"
    if status in {408, 498} or status >= 500:
        return "server"  # 498 is Groq's status for "no capacity left"
    return "refused"
