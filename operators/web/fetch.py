"""Fetching what a model or a stranger asks for: which addresses, how many bytes, how many seconds.

The address that was checked is the one that is connected to (`ssrfguard`), at the first host and at
each that it redirects to. Proxies that the environment names are not used, as a proxy would look
names up by itself; nor is ``.netrc``. Certificates are those of the environment (``SSL_CERT_FILE``)
or of `certifi`.
"""

from __future__ import annotations

import asyncio
import re
import socket
import string
import threading
import zlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any, cast

from operad.operators.web.charset import decoded
from operad.runtime.values.errors import FetchError, MissingExtraError, describe

if TYPE_CHECKING:
    import ssl

    import httpx

MAX_URL = 8_000
"""Characters that an address may have."""

MAX_SHOWN = 200
"""Characters of an address that an error repeats."""

USER_AGENT = "Mozilla/5.0 (compatible; operad)"

_AROUND = string.whitespace + "<>\"'`“”‘’"
"""Characters that models put around an address."""

_EVERYWHERE = (ip_network("0.0.0.0/0"), ip_network("::/0"))

_REFUSED = {
    ip_network("::ffff:0:0:0/96"): "is translated into IPv4",  # RFC 2765
    ip_network("168.63.129.16/32"): "tells a virtual machine of Azure about itself",
}
"""Networks that `ssrfguard` lets pass, each with the reason why it is not reached."""

_REDIRECTS = {301, 302, 303, 307, 308}

_CARRIED = {"accept", "accept-encoding", "accept-language", "content-type", "user-agent"}
"""Headers that another origin is sent too."""

_HEADER_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[\t -~]*")

_Lookup = list[tuple[int, int, int, str, tuple[Any, ...]]]
"""Answer of `socket.getaddrinfo`."""


@dataclass(frozen=True, slots=True)
class Guard:
    """Addresses that a fetch may reach, and its limits.

    Attributes:
        allowed_hosts: Hosts, as ``host`` or ``host:port``, that may be reached wherever they are;
            all others only at public addresses.
        timeout: Seconds for all of it: names, connections, redirects and the body.
        max_bytes: The largest body, in bytes, both as it comes and unpacked.
        max_redirects: How many redirects are followed.
    """

    allowed_hosts: tuple[str, ...] = ()
    timeout: float = 30.0
    max_bytes: int = 16 * 2**20
    max_redirects: int = 5

    def allows(self, host: str, port: int) -> bool:
        """Return whether this host may be reached at any address."""
        return not {host, f"{host}:{port}", f"[{host}]:{port}"}.isdisjoint(map(str.lower, self.allowed_hosts))


PUBLIC_WEB = Guard()
"""Public addresses, with the usual bounds."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """Response of an address, of any status.

    Attributes:
        status: The HTTP status.
        url: Where it was found in the end.
        headers: By their names in lower case; those that came several times with commas between.
        body: The body, unpacked.
    """

    status: int
    url: str = field(repr=False)  # a query may hold a key
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def content_type(self) -> str:
        """The media type in lower case, without parameters; empty where none is said."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def text(self) -> str:
        """The body as text: by its byte order mark, the header, what HTML or XML says, or else as it looks.

        What cannot be decoded is replaced by U+FFFD.
        """
        return decoded(self.body, self.headers.get("content-type", ""))


async def fetch(
    url: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    params: Mapping[str, str] | None = None,
    body: bytes | str | None = None,
    guard: Guard = PUBLIC_WEB,
) -> Fetched:
    """Ask an address of the web. An HTTP status of 400 or more is an answer too.

    Errors name the address without its query, where keys may be; no log does but httpcore's at DEBUG.

    Args:
        url: The address, http or https. Spaces, quotes and ``<>`` around it are left out.
        method: The HTTP method.
        headers: What else to send. Where another origin is redirected to, it gets of them only what
            says what is accepted and who asks.
        params: To be added to the query.
        body: What to send, text as UTF-8.
        guard: What may be reached, and what it may cost.

    Raises:
        FetchError: The address is none, may not be reached, cannot be reached or answers too much
            or too slowly. `transient` where another try may help.
        MissingExtraError: httpx or ssrfguard is not installed.
    """
    try:
        import anyio
        import httpx
        from ssrfguard import BlockedAddressError, BlockedURLError
        from ssrfguard import httpx as _  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            f'fetching from the web needs httpx and ssrfguard ({error}): pip install "operad[web]"'
        ) from error

    trip = _Trip("")
    try:
        address = _address(url, params)
        trip.at = _shown(address)
        request = httpx.Request(method.upper(), address, headers=_headers(headers or {}), content=body)
        with anyio.fail_after(guard.timeout):
            return await _follow(request, guard, trip)
    except TimeoutError as error:
        raise FetchError(
            f"{trip}: took longer than the {guard.timeout:g} s that it may; {trip.received:,} bytes of an answer had come",
            transient=True,
        ) from error
    except (BlockedAddressError, BlockedURLError) as error:
        raise FetchError(f"{trip}: may not be fetched: {error.reason}; `allowed_hosts` names exceptions") from error
    except (httpx.UnsupportedProtocol, httpx.LocalProtocolError) as error:
        raise FetchError(f"{trip}: cannot be asked so: {error}") from error
    except httpx.TransportError as error:
        from urllib.request import getproxies  # slow to import, and needed for this one error

        proxy = "; proxies of the environment are not used" if getproxies() else ""
        raise FetchError(f"{trip}: cannot be fetched: {describe(error)}{proxy}", transient=True) from error


@dataclass(slots=True)
class _Trip:
    """Progress of a fetch, for its errors."""

    at: str
    begun_at: str = ""
    received: int = 0

    def __str__(self) -> str:
        return f"{self.at} (where {self.begun_at} led)" if self.begun_at else self.at


def _address(url: str, params: Mapping[str, str] | None) -> httpx.URL:
    """The address that is meant.

    Raises:
        FetchError: It is none.
    """
    import httpx

    text = url.strip(_AROUND)
    if not text:
        raise FetchError("there is not an address to fetch: it is empty")
    shown = re.split(r"[?#]", text, maxsplit=1)[0][:MAX_SHOWN] if "@" not in text else "the address"
    if "://" not in text:
        if scheme := re.match(r"([a-z][a-z0-9+-]*):(?!\d)", text, re.IGNORECASE):
            raise FetchError(f"{shown}: only http and https are fetched, not {scheme[1]!r}")
        raise FetchError(f"{shown}: is not a complete address; did you mean https://{shown.lstrip('/')}?")
    try:
        address = httpx.URL(text)
        address = address.copy_merge_params(dict(params)) if params else address
        _ = address.host  # decoded here, where punycode that stands for nothing is an error like any other
    except (httpx.InvalidURL, ValueError) as error:
        if "@" in text:  # parts of a password may stand in the error
            raise FetchError(f"{shown}: is not an address of the web") from None
        raise FetchError(f"{shown}: is not an address of the web: {error}") from error
    return address


def _shown(address: httpx.URL) -> str:
    """The address without what may be secret in it."""
    shown = str(address.copy_with(userinfo=b"", query=None, fragment=None))
    return shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}…"


def _headers(given: Mapping[str, str]) -> dict[str, str]:
    """The headers to send.

    Raises:
        FetchError: One cannot be sent; its value, which may be a key, is not repeated.
    """
    for name, value in given.items():
        if not (_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
            raise FetchError(f"header {name[:40]!r}: name and value must be printable ASCII on one line")
    usual = {"user-agent": USER_AGENT, "accept": "*/*"}
    return usual | {name.lower(): value for name, value in given.items()} | {"accept-encoding": "gzip"}


@cache
def _certificates() -> ssl.SSLContext:
    """Return the trusted certificates, read once per process: each reading takes 25 ms of CPU."""
    import httpx

    return httpx.create_ssl_context()


async def _follow(request: httpx.Request, guard: Guard, trip: _Trip) -> Fetched:
    """The answer to a request, where it is found in the end."""
    import httpx

    context, cookies = _certificates(), httpx.Cookies()
    first = trip.at
    for _ in range(guard.max_redirects + 1):
        trip.at = _shown(request.url)
        trip.begun_at = first if trip.at != first else ""
        cookies.set_cookie_header(request)
        async with _asked(request, guard, context, trip) as response:
            cookies.extract_cookies(response)
            if response.status_code in _REDIRECTS and "location" in response.headers:
                request = _redirected(request, response)
                continue
            return Fetched(
                status=response.status_code,
                url=str(request.url),
                headers={name.lower(): value for name, value in response.headers.items()},
                body=await _read(response, guard, trip),
            )
    raise FetchError(f"{trip}: redirects more than the {guard.max_redirects} times that it may")


@asynccontextmanager
async def _asked(
    request: httpx.Request, guard: Guard, context: ssl.SSLContext, trip: _Trip
) -> AsyncGenerator[httpx.Response, None]:
    """Send a request to its host alone, after its address was checked.

    A transport, not a client: clients write whole addresses to the log, with the keys in them.
    """
    from ssrfguard import Policy
    from ssrfguard.httpx import AsyncSafeTransport

    url = request.url
    port = (443 if url.scheme == "https" else 80) if url.port is None else url.port
    if url.scheme not in {"http", "https"}:
        raise FetchError(f"{trip}: only http and https are fetched, not {url.scheme!r}")
    if url.userinfo:
        raise FetchError(f"{trip}: holds a name or password before its host; give them in a header")
    if not 0 < port < 2**16:
        raise FetchError(f"{trip}: there is no port {port}")
    if len(str(url)) > MAX_URL:
        raise FetchError(f"{trip}: has {len(str(url)):,} characters, more than the {MAX_URL:,} that it may")
    allowed = _EVERYWHERE if guard.allows(url.host.lower(), port) else ()
    policy = Policy(allowed_networks=allowed, allowed_ports=frozenset({port}))
    target = policy.check_url(str(url.copy_with(raw_path=b"/")))
    try:
        found = await _look_up(target.host, port)
    except (OSError, UnicodeError) as error:
        again = getattr(error, "errno", 0) == socket.EAI_AGAIN
        raise FetchError(f"{trip}: its host has no address that is known ({error})", transient=again) from error
    for network, why in () if allowed else _REFUSED.items():
        if any(ip_address(place[0]) in network for *_, place in found):
            raise FetchError(f"{trip}: may not be fetched: {network} {why}; `allowed_hosts` names exceptions")
    async with AsyncSafeTransport(
        policy=policy, resolver=lambda *_: found, verify=context, trust_env=False
    ) as transport:
        # A host may have several addresses, the first of them dead.
        request.extensions["timeout"] = {"connect": guard.timeout / 3}
        response = await transport.handle_async_request(request)
        response.request = request
        async with aclosing(response):
            yield response


async def _look_up(host: str, port: int) -> _Lookup:
    """Resolve a host in a thread, which is left alone once this is cancelled."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[_Lookup] = loop.create_future()

    def look_up() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            settle, result = answer.set_exception, error
        else:
            settle, result = answer.set_result, found
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(lambda: answer.done() or settle(cast("Any", result)))

    threading.Thread(target=look_up, name=f"address of {host}", daemon=True).start()
    return await answer


def _redirected(request: httpx.Request, response: httpx.Response) -> httpx.Request:
    """The request that a redirect asks for (RFC 9110, section 15.4).

    Raises:
        FetchError: It leads to no address.
    """
    import httpx

    try:
        url = request.url.join(response.headers["location"])
        _ = url.host  # decoded, as above
    except (httpx.InvalidURL, ValueError) as error:
        raise FetchError(f"{_shown(request.url)}: redirects to what is not an address of the web") from error
    status, method = response.status_code, request.method
    plain = method != "HEAD" if status == 303 else status in {301, 302} and method == "POST"
    left_out = {"host", "content-length", "cookie", *(["content-type"] if plain else [])}
    headers = {name: value for name, value in request.headers.items() if name not in left_out}
    if not _same_origin(request.url, url):
        headers = {name: value for name, value in headers.items() if name in _CARRIED}
    return httpx.Request("GET" if plain else method, url, headers=headers, content=b"" if plain else request.content)


def _same_origin(one: httpx.URL, other: httpx.URL) -> bool:
    """Return whether secrets for one address may be sent to the other: to the same host, no less safely."""
    if one.host != other.host:
        return False
    upgraded = (one.scheme, one.port, other.scheme, other.port) == ("http", None, "https", None)
    return upgraded or (one.scheme, one.port) == (other.scheme, other.port)


async def _read(response: httpx.Response, guard: Guard, trip: _Trip) -> bytes:
    """The body, unpacked; packed bodies are unpacked here because httpx does it without bounds.

    Raises:
        FetchError: It is larger than it may be, or packed in a way that was not asked for.
    """
    packing = response.headers.get("content-encoding", "identity").strip().lower()
    if packing not in {"identity", "gzip", "x-gzip", ""}:
        raise FetchError(f"{trip}: is packed as {packing[:40]!r}, which was not asked for")
    unpacker = zlib.decompressobj(wbits=31) if packing.endswith("gzip") else None
    body = bytearray()
    async for data in response.aiter_raw():
        trip.received += len(data)
        try:
            body += unpacker.decompress(data, guard.max_bytes + 1 - len(body)) if unpacker else data
        except zlib.error as error:
            raise FetchError(f"{trip}: says that it is packed as gzip, and is not") from error
        if max(len(body), trip.received) > guard.max_bytes:
            raise FetchError(f"{trip}: is larger than the {guard.max_bytes:,} bytes that it may have")
    if unpacker and trip.received and not unpacker.eof:
        raise FetchError(f"{trip}: broke off after {trip.received:,} bytes; try again", transient=True)
    return bytes(body)
