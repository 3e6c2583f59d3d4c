"""A client of the Docker Engine API, with the calls that the sandbox needs, all cancellable.

The docker SDK would need a thread for each call, and a thread cannot be cancelled: a cancelled turn would
leave its commands' connections open. Here a cancelled call closes its connection and ends.
"""

import contextlib
import json
import os
import ssl
from collections.abc import AsyncGenerator, Mapping
from typing import Any, TypeAlias

import httpx
import trio

from rumi.sandbox.engine import SandboxError
from rumi.texts import Text

Json: TypeAlias = Any  # the daemon's answer; each caller extracts the fields that it knows

DEFAULT_SOCKET = "/var/run/docker.sock"
CONNECT_S = 2.0
ANSWER_S = 20.0
"""Maximum time for an answer. On a busy machine an answer takes seconds; a slower daemon counts as hung."""
OLDEST_API = (1, 41)
NEWEST_API = (1, 51)
"""Oldest and newest API version that Rumi supports: its calls have the same meaning in all of them."""

_START_IT = Text("Start the Docker daemon (systemctl start docker), or set [sandbox] backend to bubblewrap.")
HUNG = Text("Restart the Docker daemon (systemctl restart docker) if this lasts.")


class ApiError(SandboxError):
    """The daemon answered with an error. `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__("Docker says: {message}.", message=message.rstrip("."))
        self.status = status


class EngineApi:
    """A client of one daemon. Create and close it inside one trio run."""

    def __init__(self, address: str | None = None) -> None:
        """Create the client without connecting.

        `address` has the format of DOCKER_HOST; None uses DOCKER_HOST, or else the default socket.

        Raises:
            SandboxError: This client does not support that kind of address (ssh, TLS).
        """
        self.address = address or os.environ.get("DOCKER_HOST") or f"unix://{DEFAULT_SOCKET}"
        scheme, _, rest = self.address.partition("://")
        if scheme not in ("unix", "tcp", "http") or not rest:
            raise SandboxError(
                "DOCKER_HOST is {address}, and only unix:// and tcp:// are understood.",
                "Forward the socket (ssh -L) and point DOCKER_HOST at it, or unset DOCKER_HOST.",
                address=f"{self.address!r}",
            )
        if scheme == "tcp" and os.environ.get("DOCKER_TLS_VERIFY"):
            raise SandboxError(
                "DOCKER_TLS_VERIFY is set, and Docker over TLS is not supported.",
                "The sandbox mounts folders of this machine: use the daemon of this machine by its socket.",
            )
        # No connection limit: with one, 100 running commands would delay the kill of one of them. This is the
        # bare transport without httpx's client, whose handling of cookies, redirects and proxies, of which
        # there are none here, takes as long as the rest of a call.
        uds = rest if scheme == "unix" else None
        pooled = httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=5)
        # TLS is never used. The context loads no certificates, because loading the default ones takes 15 ms.
        no_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._transport = httpx.AsyncHTTPTransport(verify=no_tls, uds=uds, limits=pooled, trust_env=False)
        # For calls that must not be sent twice: a pooled connection may turn out to be closed.
        fresh = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._fresh = httpx.AsyncHTTPTransport(verify=no_tls, uds=uds, limits=fresh, trust_env=False)
        self._base = "http://docker" if uds else f"http://{rest.rstrip('/')}"
        self._version = ""

    async def ping(self, timeout_s: float = 2.0) -> None:
        """Check that the daemon answers, and negotiate the API version.

        Raises:
            SandboxError: The daemon does not answer, or is too old.
        """
        response = await self._send("GET", "/_ping", timeout_s=timeout_s)
        self._raise_for_status(response)
        said = response.headers.get("Api-Version", "")
        try:
            major, minor = (int(part) for part in said.split("."))
        except ValueError:
            raise SandboxError(
                "The server at {address} is not Docker.", _START_IT, address=self.address
            ) from None
        if (major, minor) < OLDEST_API:
            raise SandboxError(
                "The Docker daemon is too old (API {said}).", "Update Docker to 20.10 or later.", said=said
            )
        chosen = min((major, minor), NEWEST_API)
        self._version = f"/v{chosen[0]}.{chosen[1]}"

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: Mapping[str, str] | None = None,
        timeout_s: float = ANSWER_S,
    ) -> Json:
        """Make a call and return its JSON answer, None if it has no body. Bounded by `timeout_s`.

        A cancellation closes the connection; the daemon may still execute the call.

        Raises:
            ApiError: The daemon refused.
            SandboxError: There is no daemon, or it does not answer in time.
        """
        await self._agree()
        response = await self._send(
            method, self._version + path, body=body, params=params, timeout_s=timeout_s
        )
        self._raise_for_status(response)
        return response.json() if response.content.strip() else None

    @contextlib.asynccontextmanager
    async def exec_started(self, exec_id: str) -> AsyncGenerator["Duplex", None]:
        """Start a prepared exec and yield its connection. Only the wait for the response headers is limited.

        Raises:
            ApiError: The daemon refused.
            SandboxError: There is no daemon, or it does not answer in time.
        """
        await self._agree()
        path, body = f"{self._version}/exec/{exec_id}/start", {"Detach": False, "Tty": False}
        headers = {"Connection": "Upgrade", "Upgrade": "tcp"}
        request = self._request("POST", path, body, None, ANSWER_S, headers)
        with self._explained():
            response = await self._fresh.handle_async_request(request)
        try:
            if response.status_code != 101:
                with self._explained():
                    await response.aread()
                self._raise_for_status(response)
                raise ApiError(response.status_code, "the connection was not handed over")
            yield Duplex(response.extensions["network_stream"])
        finally:
            # Closing a Unix socket does not wait.
            await response.aclose()

    async def aclose(self) -> None:
        """Close the pooled connections."""
        await self._transport.aclose()
        await self._fresh.aclose()

    async def _agree(self) -> None:
        if not self._version:
            await self.ping()

    async def _send(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: Mapping[str, str] | None = None,
        timeout_s: float,
    ) -> httpx.Response:
        request = self._request(method, path, body, params, timeout_s)
        with self._explained():
            # httpx limits each read only; a daemon that sends single bytes must not exceed the total limit.
            with trio.fail_after(timeout_s):
                try:
                    return await self._exchange(request)
                except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
                    if isinstance(error, httpx.ConnectError):
                        raise
                    # The daemon had closed the pooled connection. Every call on this path may be sent twice:
                    # the second of two creates of one name is a conflict, and an exec is only prepared here.
                    return await self._exchange(request)

    async def _exchange(self, request: httpx.Request) -> httpx.Response:
        response = await self._transport.handle_async_request(request)
        try:
            await response.aread()
        finally:
            await response.aclose()
        return response

    def _request(
        self,
        method: str,
        path: str,
        body: object,
        params: Mapping[str, str] | None,
        timeout_s: float,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Request:
        timeout = httpx.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s)).as_dict()
        return httpx.Request(
            method,
            self._base + path,
            params=params,
            headers=headers,
            json=body,
            extensions={"timeout": timeout},
        )

    @contextlib.contextmanager
    def _explained(self) -> Any:  # a Generator; contextlib's types need no more
        """Convert errors of the HTTP client into a `SandboxError` with advice."""
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            advice = _START_IT
            if "Permission denied" in str(error):
                advice = Text("Add this user to the group docker, or set [sandbox] backend to bubblewrap.")
            raise SandboxError(
                "No Docker daemon answers at {address}.", advice, address=self.address
            ) from error
        except (httpx.TimeoutException, trio.TooSlowError) as error:
            raise SandboxError("The Docker daemon does not answer in time.", HUNG) from error
        except httpx.HTTPError as error:
            raise SandboxError("The Docker daemon closed the connection.", HUNG) from error

    @staticmethod
    def _raise_for_status(response: httpx.Response) -> None:
        if response.status_code < 400:
            return
        try:
            message = str(json.loads(response.content)["message"])
        except (ValueError, KeyError, TypeError):
            message = response.text.strip() or response.reason_phrase
        raise ApiError(response.status_code, message)


class Duplex:
    """An upgraded connection, which carries the program's input and output."""

    def __init__(self, stream: Any) -> None:  # httpcore.AsyncNetworkStream, which httpx does not export
        self._stream = stream

    async def read(self, size: int = 65536) -> bytes:
        """Return the next bytes; empty at the end, also if the daemon has closed the connection."""
        import httpcore

        try:
            return bytes(await self._stream.read(size))
        except httpcore.NetworkError:
            return b""

    async def write(self, data: bytes) -> None:
        """Send the input and then its end. A program that does not read to the end is not an error."""
        import httpcore

        with contextlib.suppress(httpcore.NetworkError, OSError):
            await self._stream.write(data)
            # Only the write side is shut down: the program may write output after it has read everything.
            self._stream.get_extra_info("socket").shutdown(1)
