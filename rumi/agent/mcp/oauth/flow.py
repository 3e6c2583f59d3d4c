"""A login from its beginning to its tokens: registration, the address for the browser, and the answer."""

import hmac
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from mcp.client.auth import OAuthRegistrationError, PKCEParameters
from mcp.client.auth.oauth2 import check_registration_usable
from mcp.client.auth.utils import issuers_match
from mcp.shared.auth import OAuthClientInformationFull
from pydantic import ValidationError

from rumi.agent.mcp.messages import ServerSettings
from rumi.agent.mcp.oauth.discovery import AuthorizationServer
from rumi.agent.mcp.oauth.logins import ServerLogin
from rumi.agent.mcp.oauth.requests import LoginError, LoginRequests
from rumi.agent.mcp.oauth.tokens import exchange
from rumi.platform.redact import LEARNED

_WITH_SECRET: Final = ("client_secret_basic", "client_secret_post")


class NotTheAnswer(LoginError):
    """A text or a request is not the answer of this login. The login goes on."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A login that waits for its answer. `address` is for the browser; `login` has no tokens yet.

    The answer is good once: the authorization server takes a code once, and each attempt has another `state`.
    """

    address: str
    login: ServerLogin
    redirect_uri: str
    scope: str
    state: str = field(repr=False)
    verifier: str = field(repr=False)
    sends_issuer: bool

    def code_in(self, query: str) -> str:
        """Return the code in the query of the address at which the browser has arrived.

        Raises:
            NotTheAnswer: The query is not about this attempt.
            LoginError: The person or the authorization server has refused, or another server has answered.
        """
        try:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=50)
        except ValueError:
            raise NotTheAnswer("This is not the answer of this login.") from None
        found = dict(pairs)
        if len(found) < len(pairs) or not hmac.compare_digest(
            found.get("state", "").encode(), self.state.encode()
        ):
            raise NotTheAnswer(
                "This is not the answer of this login.",
                "Open the address above, and take the answer of that.",
            )
        issuer = found.get("iss")
        # RFC 9207: another authorization server could have sent the browser here with its own code.
        if (issuer is None and self.sends_issuer) or (
            issuer is not None and not issuers_match(issuer, self.login.issuer)
        ):
            raise LoginError("The answer is from another authorization server, so it is not used.")
        if found.get("error") == "access_denied":
            raise LoginError("The login was refused.", "Nothing has changed.")
        if "error" in found or not found.get("code"):
            raise LoginError("The authorization server has answered with an error.", "Try again.")
        return found["code"]

    async def finished(self, requests: LoginRequests, code: str) -> ServerLogin:
        """Return the login with its tokens.

        Raises:
            LoginError: The authorization server does not take the code.
        """
        return await exchange(
            requests,
            self.login,
            code=code,
            verifier=self.verifier,
            redirect_uri=self.redirect_uri,
            scope=self.scope,
        )


async def begun(
    requests: LoginRequests,
    settings: ServerSettings,
    server: AuthorizationServer,
    redirect_uri: str,
    more_scopes: Sequence[str] = (),
) -> Attempt:
    """Register a client, if the configuration names none, and return the attempt of a login.

    `more_scopes` are rights besides those that the server of tools asks for.

    Raises:
        LoginError: The authorization server does not register clients, or cannot be asked.
    """
    scopes = settings.section.scopes or server.scopes
    scope = " ".join(dict.fromkeys([*scopes, *more_scopes]))
    client_id, secret, auth = await _client(requests, settings, server, redirect_uri, scope)
    login = ServerLogin(
        settings.section.url,
        server.issuer,
        server.token_endpoint,
        server.resource,
        client_id,
        auth,
        secret,
        server.revocation_endpoint,
    )
    pkce, state = PKCEParameters.generate(), secrets.token_urlsafe(32)
    LEARNED.learn(f"login at {settings.section.url}", (pkce.code_verifier, secret))
    query = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": pkce.code_challenge,
        "code_challenge_method": "S256",
        "resource": server.resource,
        **({"scope": scope} if scope else {}),
        # OpenID Connect gives rights for later only after a consent.
        **({"prompt": "consent"} if "offline_access" in scope.split() else {}),
    }
    parts = urlsplit(server.authorization_endpoint)
    address = parts._replace(
        query="&".join(filter(None, (parts.query, urlencode(query)))), fragment=""
    ).geturl()
    return Attempt(address, login, redirect_uri, scope, state, pkce.code_verifier, server.sends_issuer)


async def _client(
    requests: LoginRequests,
    settings: ServerSettings,
    server: AuthorizationServer,
    redirect_uri: str,
    scope: str,
) -> tuple[str, str, str]:
    """Return the client's id, its secret, and how it proves itself."""
    chosen = settings.section.client_id
    if chosen.startswith("https://") and not server.takes_client_documents:
        raise LoginError(
            "The authorization server takes no documents as clients, and mcp.{name}.client_id is an address.",
            "Set the client_id that it has given you.",
            name=settings.name,
        )
    if chosen:
        return chosen, settings.client_secret, _method(server, bool(settings.client_secret))
    if not server.registration_endpoint:
        raise LoginError(
            "The authorization server {issuer} registers no programs by itself.",
            "Register Rumi there by hand, with the address that mcp.{name}.redirect_uri has, such as "
            "http://localhost:8765/callback. Then: rumi config set mcp.{name}.client_id ID",
            issuer=server.issuer,
            name=settings.name,
        )
    method = _method(server, server.methods is not None and "none" not in server.methods)
    wanted = {
        "client_name": "Rumi",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        "application_type": "native",
        **({"scope": scope} if scope else {}),
    }
    answer = await requests.post_json(server.registration_endpoint, json.dumps(wanted).encode())
    if answer.status not in (200, 201):
        raise LoginError(
            "The authorization server does not register Rumi (HTTP {status}).",
            "Register it there by hand, and set mcp.{name}.client_id.",
            status=answer.status,
            name=settings.name,
        )
    try:
        client = OAuthClientInformationFull.model_validate_json(answer.body)
        check_registration_usable(client)
    except (ValidationError, OAuthRegistrationError):
        raise LoginError("The authorization server's registration cannot be used.") from None
    return client.client_id, client.client_secret or "", client.token_endpoint_auth_method or method


def _method(server: AuthorizationServer, has_secret: bool) -> str:
    """Return how a client proves itself, of the ways that the authorization server takes.

    Raises:
        LoginError: It takes none that Rumi has.
    """
    if not has_secret:
        return "none"
    if server.methods is None:
        return "client_secret_basic"  # the default of RFC 8414
    for method in _WITH_SECRET:
        if method in server.methods:
            return method
    raise LoginError("The authorization server takes no proof of a client that Rumi can give.")
