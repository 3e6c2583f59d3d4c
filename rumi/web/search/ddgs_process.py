"""The process that makes one search with ddgs.

To start quickly, the process runs this file directly, and imports no module of Rumi except
`rumi.sandbox.confined.child`. `Duck` sends the request. The answer is `{"results": […]}` in the format of
ddgs, or `{"failed": REASON}` where REASON is `unreachable`, `timeout`, `refused` or `failed`.
"""

import functools
import os
import resource
from typing import Any

from rumi.sandbox.confined.child import ParentProcess

_BOUNDS = {resource.RLIMIT_DATA: 512 * 1024**2, resource.RLIMIT_CPU: 20}
_FIELD_CHARS = 8000
_NO_ANSWER = ("ConnectError", "DNSError", "DNSTimeoutError", "RequestError")


def main() -> None:
    """Search once, send the results or the reason for the failure, and exit without waiting for threads."""
    parent = ParentProcess(_BOUNDS)
    parent.ready()
    parent.send(_search(parent.hear()))
    os._exit(0)


def _search(request: dict[str, Any]) -> dict[str, object]:
    import primp
    from ddgs.ddgs import DDGS
    from ddgs.exceptions import DDGSException, TimeoutException
    from ddgs.http_client import HttpClient
    from ddgs.results import BaseResult

    # No redirects: requests only go to the engines' own addresses, because the guard does not see them.
    vars(primp)["Client"] = functools.partial(primp.Client, follow_redirects=False, https_only=True)
    # ddgs decodes percent escapes in URLs, which changes some of them: leave URLs as the engines sent them.
    BaseResult._normalizers = {
        name: normalize for name, normalize in BaseResult._normalizers.items() if name not in ("href", "url")
    }
    statuses: list[int] = []
    ask = HttpClient.request

    def ask_and_note(client: HttpClient, *args: Any, **kwargs: Any) -> Any:
        response = ask(client, *args, **kwargs)
        statuses.append(response.status_code)
        return response

    HttpClient.request = ask_and_note  # type: ignore[method-assign,assignment] # nothing tells the status
    engines = DDGS(
        proxy=request["proxy"], timeout=request["engine_timeout_s"], verify=request["ca_file"] or True
    )
    search = engines.news if request["topic"] == "news" else engines.text
    try:
        found = search(request["query"], max_results=request["max_results"])
    except TimeoutException:
        return {"failed": "timeout"}
    except DDGSException as error:
        return _nothing(str(error), statuses)
    # Cut, because ddgs returns whole articles of an encyclopedia.
    return {
        "results": [{name: str(value or "")[:_FIELD_CHARS] for name, value in row.items()} for row in found]
    }


def _nothing(error: str, statuses: list[int]) -> dict[str, object]:
    """Return the answer for a search without results, based on the HTTP statuses of the search engines.

    `error` comes from the last engine only, and ddgs does not report that an engine refused the request.
    """
    if 200 in statuses:
        return {"results": []}
    if statuses:
        return {"failed": "refused"}
    return {"failed": "unreachable" if error.startswith(_NO_ANSWER) else "failed"}


if __name__ == "__main__":
    main()
