"""The token endpoint of an authorization server: the first tokens, their renewal, and their revocation."""

import base64
import json
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import quote_plus

from mcp.shared.auth import OAuthToken
from pydantic import ValidationError

from rumi.agent.mcp.oauth.logins import ServerLogin
from rumi.agent.mcp.oauth.requests import LoginError, LoginRequests
from rumi.texts import Text
from rumi.web.referrals import ReferralAnswer

MOST_TOKEN_CHARS: Final = 16_000
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_ERROR: Final = re.compile(r"[a-z_]{1,40}")
_MOST_S: Final = 10 * 365 * 86_400.0


class LoginRefused(LoginError):
    """The authorization server has refused the tokens or the client: a person has to log in again."""


async def exchange(
    requests: LoginRequests, login: ServerLogin, *, code: str, verifier: str, redirect_uri: str, scope: str
) -> ServerLogin:
    """Return the login with the tokens for the code of an answer. `scope` are the rights that were asked for.

    Raises:
        LoginError: The authorization server gives none.
    """
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect_uri,
        "code_verifier": verifier,
    }
    return _with_tokens(replace(login, scope=scope), await _post(requests, login, form))


async def refresh(requests: LoginRequests, login: ServerLogin) -> ServerLogin:
    """Return the login with new tokens. The authorization server may have made the old ones invalid.

    Raises:
        LoginRefused: The login has ended.
        LoginError: The authorization server could not be asked; the login may still be good.
    """
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh}
    return _with_tokens(login, await _post(requests, login, form))


async def revoke(requests: LoginRequests, login: ServerLogin) -> None:
    """Make the tokens of a login invalid (RFC 7009).

    Raises:
        LoginError: The authorization server does not offer that, or could not be asked.
    """
    if not login.revocation_endpoint:
        raise LoginError("The authorization server does not offer to revoke logins.")
    # The refresh token first: servers then often revoke the access tokens that it gave.
    for token, hint in ((login.refresh, "refresh_token"), (login.access, "access_token")):
        if token:
            fields, headers = _proof(login, {"token": token, "token_type_hint": hint})
            answer = await requests.post_form(login.revocation_endpoint, fields, headers)
            if answer.status != 200:
                raise _refusal(answer)


async def _post(requests: LoginRequests, login: ServerLogin, form: Mapping[str, str]) -> OAuthToken:
    fields, headers = _proof(login, {**form, "resource": login.resource})
    answer = await requests.post_form(login.token_endpoint, fields, headers)
    if answer.status not in (200, 201):
        raise _refusal(answer)
    try:
        tokens = OAuthToken.model_validate_json(answer.body)
    except ValidationError:
        raise LoginError("The authorization server's answer has no tokens that Rumi can use.") from None
    for token in (tokens.access_token, tokens.refresh_token or "-"):
        # A token goes into a header: a line end would add another header.
        if _TOKEN.fullmatch(token) is None or len(token) > MOST_TOKEN_CHARS:
            raise LoginError("The authorization server's answer has no tokens that Rumi can use.")
    return tokens


def _proof(login: ServerLogin, form: Mapping[str, str]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return a form and headers with which the client proves itself (RFC 6749, section 2.3.1)."""
    fields = {**form, "client_id": login.client_id}
    if login.auth == "client_secret_basic":
        both = f"{quote_plus(login.client_id)}:{quote_plus(login.client_secret)}"
        return {**form}, [("Authorization", f"Basic {base64.b64encode(both.encode()).decode()}")]
    if login.auth == "client_secret_post":
        fields["client_secret"] = login.client_secret
    return fields, []


def _with_tokens(login: ServerLogin, tokens: OAuthToken) -> ServerLogin:
    """Return a login with tokens. What an answer leaves out has not changed (RFC 6749, section 6)."""
    lasts = tokens.expires_in
    return replace(
        login,
        access=tokens.access_token,
        refresh=tokens.refresh_token or login.refresh,
        expires=None if lasts is None else time.time() + min(max(lasts, 0), _MOST_S),
        scope=login.scope if tokens.scope is None else tokens.scope,
        ended=False,
    )


def _refusal(answer: ReferralAnswer) -> LoginError:
    """Return the error for a refusal. Only its code is taken from the answer, because it is no free text."""
    try:
        said = json.loads(answer.body)
        code = said.get("error") if isinstance(said, dict) else None
    except (ValueError, RecursionError):
        code = None
    why = code if isinstance(code, str) and _ERROR.fullmatch(code) else f"HTTP {answer.status}"
    final = why in ("invalid_grant", "invalid_client", "unauthorized_client", "invalid_target")
    kind = LoginRefused if final else LoginError
    return kind(Text("The authorization server refuses: {why}.", why=why))
