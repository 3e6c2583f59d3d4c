"""Finds out where a server of tools lets its users log in (RFC 9728, RFC 8414, OpenID Connect Discovery)."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, cast

import httpx2
import trio
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    extract_field_from_www_auth,
    issuers_match,
)
from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from pydantic import ValidationError

from rumi import __version__
from rumi.agent.mcp.messages import ServerSettings
from rumi.agent.mcp.oauth.requests import LoginError, LoginRequests
from rumi.platform import http
from rumi.web.referrals import ReferralAnswer

PROBE_S: Final = 20.0
"""Maximum time of the request that asks a server of tools whether it wants a login, in seconds."""

_HELLO: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "rumi", "version": __version__},
    },
}


@dataclass(frozen=True, slots=True)
class Challenge:
    """What a server of tools answers to a request without a login.

    `status` is the HTTP status; `metadata_url` and `scope` come from `WWW-Authenticate` and may be empty.
    """

    status: int
    metadata_url: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True)
class AuthorizationServer:
    """Where to log in, and how. Empty addresses are not offered.

    `resource` identifies the server of tools (RFC 8707), `scopes` are the rights that it asks for. `methods`
    are the ways in which clients prove themselves; None means that it does not say. `sends_issuer` is True if
    answers must name the issuer (RFC 9207).
    """

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    resource: str
    scopes: tuple[str, ...] = ()
    registration_endpoint: str = ""
    revocation_endpoint: str = ""
    methods: tuple[str, ...] | None = None
    takes_client_documents: bool = False
    sends_issuer: bool = False


def challenge_in(response: httpx2.Response) -> Challenge:
    """Read the challenge of a response; only its headers are used."""
    return Challenge(
        response.status_code,
        extract_field_from_www_auth(response, "resource_metadata") or "",
        extract_field_from_www_auth(response, "scope") or "",
    )


async def challenge_of(settings: ServerSettings) -> Challenge:
    """Ask a server of tools without a login. On cancellation, leaves no connection.

    Raises:
        LoginError: The server does not answer.
    """
    client: httpx2.AsyncClient = await http.client(
        cast("Any", lambda: httpx2.AsyncClient),
        http.Tls(),
        library=httpx2,
        headers={**settings.headers, "Accept": "application/json, text/event-stream"},
        timeout=httpx2.Timeout(PROBE_S),
    )
    try:
        with trio.move_on_after(PROBE_S):
            for method, body in (("POST", _HELLO), ("GET", None)):  # GET: servers of the older transport
                async with client.stream(method, settings.section.url, json=body) as response:
                    challenge = challenge_in(response)
                if challenge.status not in (404, 405):
                    break
            return challenge
        raise LoginError("The server did not answer in time.", "Try again later.")
    except httpx2.HTTPError:
        raise LoginError(
            "The connection to the server failed.", "To see why: rumi mcp test {name}", name=settings.name
        ) from None
    finally:
        await http.close(client.aclose)


async def discover(requests: LoginRequests, url: str, challenge: Challenge) -> AuthorizationServer:
    """Return the authorization server of the server of tools with the address `url`.

    Raises:
        LoginError: There is none that Rumi can use. The error says why.
    """
    protected = await _resource(requests, url, challenge)
    resource, issuer = resource_url_from_server_url(url), ""
    if protected is not None:
        resource, issuer = str(protected.resource), str(protected.authorization_servers[0])
        if not check_resource_allowed(resource_url_from_server_url(url), resource):
            raise LoginError("The server says that it is another one, {resource}.", resource=_shown(resource))
    for address in build_oauth_authorization_server_metadata_discovery_urls(issuer or None, url):
        answer = await requests.get(address)
        _check_status(answer)
        if answer.status == 200 and (found := _metadata(answer.body)) is not None:
            metadata, named = found
            break
    else:
        if protected is None:
            raise LoginError(
                "The server does not say where to log in.",
                "If its service gives out tokens, see docs/mcp.md: headers.",
            )
        raise LoginError("{issuer} does not say how to log in there.", issuer=_shown(issuer))
    # Without this check, a server could send the answers for one authorization server to another one.
    if not issuers_match(named, issuer or _origin(url)):
        raise LoginError(
            "The authorization server has another name than the server of tools says: {named}, not {issuer}.",
            named=_shown(named),
            issuer=_shown(issuer or _origin(url)),
        )
    if "S256" not in (metadata.code_challenge_methods_supported or ()):
        raise LoginError(
            "{issuer} does not offer PKCE with S256, so Rumi does not log in there.", issuer=named
        )
    scopes = challenge.scope.split() or (protected.scopes_supported if protected is not None else None) or ()
    offline = "offline_access" in (metadata.scopes_supported or ()) and "offline_access" not in scopes
    methods = metadata.token_endpoint_auth_methods_supported
    server = AuthorizationServer(
        named,
        str(metadata.authorization_endpoint),
        str(metadata.token_endpoint),
        resource,
        (*scopes, "offline_access") if scopes and offline else tuple(scopes),
        str(metadata.registration_endpoint or ""),
        str(metadata.revocation_endpoint or ""),
        None if methods is None else tuple(methods),
        metadata.client_id_metadata_document_supported is True,
        metadata.authorization_response_iss_parameter_supported is True,
    )
    await requests.check(server.authorization_endpoint)
    return server


async def _resource(
    requests: LoginRequests, url: str, challenge: Challenge
) -> ProtectedResourceMetadata | None:
    """Return what a server of tools says about itself (RFC 9728); None if it says nothing."""
    for address in build_protected_resource_metadata_discovery_urls(challenge.metadata_url or None, url):
        answer = await requests.get(address)
        _check_status(answer)
        if answer.status == 200:
            try:
                return ProtectedResourceMetadata.model_validate_json(answer.body)
            except ValidationError:
                continue
    return None


def _check_status(answer: ReferralAnswer) -> None:
    """Raise LoginError if an answer says nothing about whether there is metadata at its address."""
    if answer.status == 429 or answer.status >= 500:
        raise LoginError(
            "The authorization server has an error of its own (HTTP {status}).",
            "Try again later.",
            status=answer.status,
        )


def _metadata(body: bytes) -> tuple[OAuthMetadata, str] | None:
    """Return metadata with its issuer as it is written, which answers repeat exactly."""
    try:
        return OAuthMetadata.model_validate_json(body), str(json.loads(body)["issuer"])
    except (ValidationError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _origin(url: str) -> str:
    parsed = httpx2.URL(url)
    return f"{parsed.scheme}://{parsed.netloc.decode()}"


def _shown(address: str) -> str:
    """Return the origin of an address that a server has sent, which can hold no sentence."""
    try:
        return _origin(address)[:200]
    except httpx2.InvalidURL:
        return "?"


def shown_scopes(scopes: Iterable[str]) -> str:
    """Return rights for people, without characters that no right has (RFC 6749, section 3.3)."""
    return ", ".join(scope for scope in scopes if scope.isascii() and scope.isprintable())[:500]
