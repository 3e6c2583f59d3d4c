"""Holds the requests of a page or a worker until its mode has judged them."""

from collections.abc import Callable
from typing import Final

from rumi.web.browser.cdp import Cdp, Params
from rumi.web.browser.sending import Mode
from rumi.web.messages import FetchError
from rumi.web.url import parse_target

AUTO_ATTACH: Final[Params] = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}
"""A new page or worker waits until its requests are held."""

_DOCUMENT: Final = "Document"
_HELD: Final = ("Document", "XHR", "Fetch", "Ping", "CSPViolationReport", "Other")
"""The types of requests that can be something else than GET."""


def hold_requests(cdp: Cdp, session: str) -> None:
    """Hold the requests of a session, and let its page or worker start."""
    patterns = [{"urlPattern": "*", "resourceType": kind} for kind in _HELD]
    cdp.post("Fetch.enable", {"patterns": patterns}, session)
    cdp.post("Runtime.runIfWaitingForDebugger", session=session)


def watch_requests(cdp: Cdp, session: str, mode: Callable[[], Mode]) -> None:
    """Judge the requests of a worker, and of the workers that it starts, by a mode."""

    def heard(event: str, params: Params) -> None:
        if event == "Fetch.requestPaused":
            judge(cdp, session, params, mode())
        elif event == "Target.attachedToTarget":
            watch_requests(cdp, str(params["sessionId"]), mode)

    cdp.listen(session, heard)
    cdp.post("Target.setAutoAttach", AUTO_ATTACH, session)
    hold_requests(cdp, session)


def judge(cdp: Cdp, session: str, params: Params, mode: Mode) -> None:
    """Let a held request go on, or refuse it."""
    request, id_ = params["request"], params["requestId"]
    document = params.get("resourceType") == _DOCUMENT
    method, origin = str(request["method"]), origin_of(str(request["url"]))
    if mode.allows(method, origin, document=document, redirected="redirectedRequestId" in params):
        cdp.post("Fetch.continueRequest", {"requestId": id_}, session)
        return
    mode.refused.append((method, origin or "another address"))
    why = "Aborted" if document else "BlockedByClient"
    cdp.post("Fetch.failRequest", {"requestId": id_, "errorReason": why}, session)


def origin_of(url: str) -> str:
    """Return the origin of an address; empty if it is not one of the web."""
    try:
        return parse_target(url).origin
    except FetchError:
        return ""
