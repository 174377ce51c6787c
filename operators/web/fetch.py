"""Fetcher for untrusted addresses, with limits of networks, sizes and times.

A host is resolved once. All its IP addresses are checked (`operad.operators.web.fetch`), and the connection uses the
checked address, for the first host and for each redirect; certificates are verified for the name of the host.
Proxies of the environment are not used, because a proxy resolves host names by itself; ``.netrc`` is not used either.
Certificates come from the environment (``SSL_CERT_FILE``) or from `certifi`.
"""

from __future__ import annotations

import asyncio
import re
import socket
import string
import threading
import zlib
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any, cast

from operad.runtime.values.charset import decoded
from operad.runtime.values.errors import FetchError, MissingExtraError, describe
from operad.runtime.values.pip import pip_install
from operad.runtime.values.text import shortened

if TYPE_CHECKING:
    import ssl

    import httpx


# IP addresses that lead into this machine, its network or its cloud.
#
# The tables follow the IANA registries of special-purpose addresses of IPv4 and IPv6, of multicast addresses, and of the
# IPv6 address space (2026-11). The predicates of `ipaddress` answer another question, differently in each Python: for
# ``is_global``, the address 64:ff9b::7f00:1 is global, but its packets arrive at 127.0.0.1.

_REFUSED_V4 = {
    ip_network("0.0.0.0/8"): "is This Network (RFC 1122)",
    ip_network("10.0.0.0/8"): "is Private Use (RFC 1918)",
    ip_network("100.64.0.0/10"): "is Shared Address Space of providers and clouds (RFC 6598)",
    ip_network("127.0.0.0/8"): "is Loopback (RFC 1122)",
    ip_network("168.63.129.16/32"): "tells a virtual machine of Azure about itself",
    ip_network("169.254.0.0/16"): "is Link Local, with the metadata of clouds (RFC 3927)",
    ip_network("172.16.0.0/12"): "is Private Use (RFC 1918)",
    ip_network("192.0.0.0/24"): "is reserved for protocols (RFC 6890)",
    ip_network("192.0.2.0/24"): "is Documentation (RFC 5737)",
    ip_network("192.88.99.0/24"): "is a relay of 6to4 (RFC 7526)",
    ip_network("192.168.0.0/16"): "is Private Use (RFC 1918)",
    ip_network("198.18.0.0/15"): "is Benchmarking (RFC 2544)",
    ip_network("198.51.100.0/24"): "is Documentation (RFC 5737)",
    ip_network("203.0.113.0/24"): "is Documentation (RFC 5737)",
    ip_network("224.0.0.0/4"): "is Multicast (RFC 5771)",
    ip_network("240.0.0.0/4"): "is reserved, with Broadcast (RFC 1112)",
}

_REFUSED_V6 = {
    ip_network("::/128"): "is the Unspecified Address (RFC 4291)",
    ip_network("::1/128"): "is Loopback (RFC 4291)",
    ip_network("::/96"): "is IPv4-Compatible (RFC 4291)",
    ip_network("::ffff:0:0:0/96"): "is translated into IPv4 (RFC 2765)",
    ip_network("64:ff9b:1::/48"): "is translated into IPv4 (RFC 8215)",
    ip_network("2001::/23"): "is reserved for protocols, with Teredo (RFC 2928, RFC 4380)",
    ip_network("2001:db8::/32"): "is Documentation (RFC 3849)",
    ip_network("2002::/16"): "is 6to4, which leads to IPv4 (RFC 3056)",
    ip_network("3fff::/20"): "is Documentation (RFC 9637)",
    ip_network("fc00::/7"): "is Unique Local (RFC 4193)",
    ip_network("fe80::/10"): "is Link Local (RFC 4291)",
    ip_network("fec0::/10"): "is Site Local (RFC 3879)",
    ip_network("ff00::/8"): "is Multicast (RFC 4291)",
}

_GLOBAL_V6 = ip_network("2000::/3")
"""The IPv6 address space from which public addresses are assigned (RFC 4291)."""

_CARRIES_V4 = (ip_network("::ffff:0:0/96"), ip_network("64:ff9b::/96"))
"""Networks whose packets arrive at the IPv4 address in their last 32 bits: mapped (RFC 4291), NAT64 (RFC 6052)."""

_ISATAP = {0x0000_5EFE, 0x0200_5EFE}
"""Beginnings of an interface identifier that ends with an IPv4 address (RFC 5214)."""


def refusal(address: str) -> str:
    """Return the reason why an IP address is not public; empty for a public one.

        print(refusal("::ffff:10.0.0.1"))  # ::ffff:10.0.0.1 leads to 10.0.0.1, and 10.0.0.0/8 is Private Use (RFC 1918)

    Args:
        address: The address as `socket.getaddrinfo` returns it, for IPv6 perhaps with a zone.
    """
    if "%" in address:
        return f"{address[:80]} has a zone, which names an interface of this machine"
    try:
        ip = ip_address(address)
    except ValueError:
        return f"{address[:80]} is not an IP address"
    if isinstance(ip, IPv4Address):
        return next((f"{network} {reason}" for network, reason in _REFUSED_V4.items() if ip in network), "")
    carried = _carried(ip)
    if carried is not None and (reason := refusal(str(carried))):
        return f"{ip} leads to {carried}, and {reason}"
    if any(ip in network for network in _CARRIES_V4):
        return ""
    for network, reason in _REFUSED_V6.items():
        if ip in network:
            return f"{network} {reason}"
    return "" if ip in _GLOBAL_V6 else f"{ip} is outside of {_GLOBAL_V6}, the public addresses of IPv6"


def _carried(ip: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address at which packets to an IPv6 address arrive; None if there is none."""
    bits = int(ip)
    if any(ip in network for network in _CARRIES_V4) or (bits >> 32) & 0xFFFF_FFFF in _ISATAP:
        return IPv4Address(bits & 0xFFFF_FFFF)
    return None


MAX_URL = 8_000
"""Maximum length of a URL, in characters."""

MAX_SHOWN = 200
"""Maximum length of a URL in an error, in characters."""

USER_AGENT = "Mozilla/5.0 (compatible; operad)"

_STRIPPED = string.whitespace + "<>\"'`“”‘’"
"""Characters that models put around a URL, which are removed."""

_REDIRECTS = {301, 302, 303, 307, 308}

_CROSS_ORIGIN_HEADERS = {"accept", "accept-encoding", "accept-language", "content-type", "user-agent"}
"""Request headers that are also sent to another origin after a redirect."""

_HOST = re.compile(r"[\w.~-]+|[0-9A-Fa-f:.]+(%[\w.~-]+)?", re.ASCII)
_HEADER_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[\t -~]*")

_Lookup = list[tuple[int, int, int, str, tuple[Any, ...]]]
"""Answer of `socket.getaddrinfo`."""


@dataclass(frozen=True, slots=True)
class Guard:
    """Allowed hosts and limits of a fetch.

    Attributes:
        allowed_hosts: Hosts, as ``host`` or ``host:port``, that may be reached at any IP address; all other hosts only
            at public addresses.
        timeout: Maximum duration in seconds: name resolution, connections, redirects and the body.
        max_bytes: Maximum size of the body in bytes, both as received and uncompressed.
        max_redirects: Maximum number of redirects.
    """

    allowed_hosts: tuple[str, ...] = ()
    timeout: float = 30.0
    max_bytes: int = 16 * 2**20
    max_redirects: int = 5

    def allows(self, host: str, port: int) -> bool:
        """Return True if a host may be reached at any IP address."""
        return not {host, f"{host}:{port}", f"[{host}]:{port}"}.isdisjoint(map(str.lower, self.allowed_hosts))


PUBLIC_WEB = Guard()
"""Guard for public addresses, with default limits."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """Response to a request, of any status.

    Attributes:
        url: URL after all redirects.
        headers: Headers by name, in lower case; values of repeated headers are joined by commas.
        body: Body, uncompressed.
    """

    status: int
    url: str = field(repr=False)  # the query may contain a key
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def content_type(self) -> str:
        """Media type in lower case, without parameters; empty if there is none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def text(self) -> str:
        """Return the body as text; see `charset.decoded`."""
        return decoded(self.body, self.headers.get("content-type", ""))


async def fetch(
    url: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    params: Mapping[str, str] | None = None,
    body: bytes | str | None = None,
    guard: Guard = PUBLIC_WEB,
    secrets: Collection[str] = (),
) -> Fetched:
    """Send a request to a URL and return the response, also for a status of 400 or more.

    Errors contain the URL without its query, which may contain keys. No log contains the query, except that of httpcore
    at level DEBUG.

    Args:
        url: URL with http or https. Spaces, quotes and ``<>`` around it are removed.
        headers: Request headers. After a redirect to another origin, only content negotiation headers and the user
            agent are sent.
        params: Parameters to add to the query.
        body: Request body; text is sent as UTF-8.
        guard: Allowed hosts and limits.
        secrets: Values in the headers and the body that no other origin gets: a redirect there that would send the body
            again is an error.

    Raises:
        FetchError: The URL is invalid or refused, the host cannot be reached, or the response is too large or too slow.
            `transient` is True if another attempt may succeed.
        MissingExtraError: httpx is not installed.
    """
    try:
        import anyio
        import httpx
    except ImportError as error:
        raise MissingExtraError(f"fetching from the web needs httpx ({error}): {pip_install('web')}") from error

    progress = _Progress("")
    try:
        address = _parse_url(url, params)
        progress.at = _for_display(address)
        request = httpx.Request(method.upper(), address, headers=_headers(headers or {}), content=body)
        with anyio.fail_after(guard.timeout):
            return await _follow(request, guard, progress, secrets)
    except TimeoutError as error:
        raise FetchError(
            f"{progress}: took longer than the maximum of {guard.timeout:g} s; "
            f"{progress.received:,} bytes of an answer had come",
            transient=True,
        ) from error
    except (httpx.UnsupportedProtocol, httpx.LocalProtocolError) as error:
        raise FetchError(f"{progress}: invalid request: {error}") from error
    except httpx.TransportError as error:
        from urllib.request import getproxies  # imported late, because it is slow and needed for this error only

        proxy = "; proxies of the environment are not used" if getproxies() else ""
        raise FetchError(f"{progress}: cannot be fetched: {describe(error)}{proxy}", transient=True) from error


@dataclass(slots=True)
class _Progress:
    """Progress of a fetch, for errors.

    Attributes:
        at: URL of the current request, for display.
        begun_at: URL of the first request, if it differs.
        received: Number of bytes of the body received so far.
    """

    at: str
    begun_at: str = ""
    received: int = 0

    def __str__(self) -> str:
        return f"{self.at} (where {self.begun_at} led)" if self.begun_at else self.at


def _parse_url(url: str, params: Mapping[str, str] | None) -> httpx.URL:
    """Return a parsed URL with parameters added."""
    import httpx

    text = url.strip(_STRIPPED)
    if not text:
        raise FetchError("the URL is empty")
    shown = re.split(r"[?#]", text, maxsplit=1)[0][:MAX_SHOWN] if "@" not in text else "the address"
    if "://" not in text:
        if scheme := re.match(r"([a-z][a-z0-9+-]*):(?!\d)", text, re.IGNORECASE):
            raise FetchError(f"{shown}: only http and https are fetched, not {scheme[1]!r}")
        raise FetchError(f"{shown}: is not a complete address; did you mean https://{shown.lstrip('/')}?")
    try:
        address = httpx.URL(text)
        address = address.copy_merge_params(dict(params)) if params else address
        _ = address.host  # decodes the host, so that invalid punycode is an error here
    except (httpx.InvalidURL, ValueError) as error:
        if "@" in text:  # the error may contain a part of a password
            raise FetchError(f"{shown}: is not a valid URL") from None
        raise FetchError(f"{shown}: is not a valid URL: {error}") from error
    return address


def host_and_port(url: str) -> tuple[str, int]:
    """Return the host of a URL in lower case, and its port.

    Raises:
        FetchError: The text is not a URL with http or https.
    """
    address = _parse_url(url, None)
    return address.host.lower(), address.port or (443 if address.scheme == "https" else 80)


def _for_display(address: httpx.URL) -> str:
    """Return a URL for display, without parts that may be secret."""
    return shortened(str(address.copy_with(userinfo=b"", query=None, fragment=None)), MAX_SHOWN)


def _headers(given: Mapping[str, str]) -> dict[str, str]:
    """Return the headers to send, with defaults."""
    for name, value in given.items():
        if not (_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
            raise FetchError(f"header {name[:40]!r}: name and value must be printable ASCII on one line")
    defaults = {"user-agent": USER_AGENT, "accept": "*/*"}
    return defaults | {name.lower(): value for name, value in given.items()} | {"accept-encoding": "gzip"}


@cache
def _certificates() -> ssl.SSLContext:
    """Return the trusted certificates. They are read once per process, because that takes 25 ms of CPU."""
    import httpx

    return httpx.create_ssl_context()


async def _follow(request: httpx.Request, guard: Guard, progress: _Progress, secrets: Collection[str] = ()) -> Fetched:
    """Send a request, follow redirects, and return the final response."""
    import httpx

    context, cookies = _certificates(), httpx.Cookies()
    first = progress.at
    for _ in range(guard.max_redirects + 1):
        progress.at = _for_display(request.url)
        progress.begun_at = first if progress.at != first else ""
        cookies.set_cookie_header(request)
        async with _open_response(request, guard, context, progress) as response:
            cookies.extract_cookies(response)
            if response.status_code in _REDIRECTS and "location" in response.headers:
                request = _redirect_request(request, response, secrets)
                continue
            return Fetched(
                status=response.status_code,
                url=str(request.url),
                headers={name.lower(): value for name, value in response.headers.items()},
                body=await _read_body(response, guard, progress),
            )
    raise FetchError(f"{progress}: redirects more than the maximum of {guard.max_redirects} times")


@asynccontextmanager
async def _open_response(
    request: httpx.Request, guard: Guard, context: ssl.SSLContext, progress: _Progress
) -> AsyncGenerator[httpx.Response, None]:
    """Send a request, without redirects, after checking the IP addresses of its host; yield the response.

    A transport is used in place of a client, because clients log whole URLs, with the keys in them.
    """
    import httpx

    url = request.url
    port = (443 if url.scheme == "https" else 80) if url.port is None else url.port
    if url.scheme not in {"http", "https"}:
        raise FetchError(f"{progress}: only http and https are fetched, not {url.scheme!r}")
    if url.userinfo:
        raise FetchError(f"{progress}: holds a name or password before its host; give them in a header")
    if not 0 < port < 2**16:
        raise FetchError(f"{progress}: there is no port {port}")
    if len(str(url)) > MAX_URL:
        raise FetchError(f"{progress}: has {len(str(url)):,} characters, more than the maximum of {MAX_URL:,}")
    host = url.raw_host.decode("ascii")
    if not host:
        raise FetchError(f"{progress}: has no host")
    if not _HOST.fullmatch(host):
        raise FetchError(f"{progress}: may not be fetched: its host has characters that no name or address has")
    addresses = await _addresses_of(host, port, guard, progress)
    is_name = not _is_address(host)
    async with httpx.AsyncHTTPTransport(verify=context, trust_env=False) as transport:
        for address in addresses:
            # The certificate is verified for the name; the header `host` of the request names it, too.
            extensions: dict[str, Any] = {"sni_hostname": host.rstrip(".")} if is_name else {}
            # leaves time for further addresses of the host if the first one does not answer
            extensions["timeout"] = {"connect": guard.timeout / 3}
            pinned = httpx.Request(
                request.method,
                url.copy_with(host=address),
                headers=request.headers,
                content=request.content,
                extensions=extensions,
            )
            try:
                response = await transport.handle_async_request(pinned)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if address == addresses[-1]:
                    raise
                continue
            response.request = request
            async with aclosing(response):
                yield response
            return


def guarded_client(guard: Guard, headers: Mapping[str, str], origin: str) -> httpx.AsyncClient:
    """Return a client for a library that sends its own requests; each goes through the guard, and redirects do not.

    Args:
        headers: Headers, such as keys, of requests to the origin.
        origin: URL whose scheme, host and port the requests must have to get `headers`.
    """
    import httpx

    home = httpx.URL(origin)

    class Body(httpx.AsyncByteStream):
        def __init__(self, response: httpx.Response, stack: AsyncExitStack, progress: _Progress) -> None:
            self._response, self._stack, self._progress = response, stack, progress

        async def __aiter__(self) -> AsyncGenerator[bytes, None]:
            async for data in self._response.aiter_raw():
                self._progress.received += len(data)
                if self._progress.received > guard.max_bytes:
                    raise FetchError(f"{self._progress}: is larger than the maximum of {guard.max_bytes:,} bytes")
                yield data

        async def aclose(self) -> None:
            await self._stack.aclose()

    class Transport(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            progress = _Progress(_for_display(request.url))
            if _same_origin(home, request.url):
                request.headers.update(headers)
            request.headers["accept-encoding"] = "identity"
            await request.aread()
            async with AsyncExitStack() as stack:
                response = await stack.enter_async_context(_open_response(request, guard, _certificates(), progress))
                if response.headers.get("content-encoding", "identity") != "identity":
                    raise FetchError(f"{progress}: is packed, which was not requested")
                body = Body(response, stack.pop_all(), progress)
            return httpx.Response(response.status_code, headers=response.headers, stream=body)

    return httpx.AsyncClient(transport=Transport(), trust_env=False)


async def _addresses_of(host: str, port: int, guard: Guard, progress: _Progress) -> list[str]:
    """Return the IP addresses of a host, after checking each."""
    try:
        found = await _resolve(host, port)
    except (OSError, UnicodeError) as error:
        is_temporary = getattr(error, "errno", 0) == socket.EAI_AGAIN
        raise FetchError(
            f"{progress}: its host has no address that is known ({error})", transient=is_temporary
        ) from error
    addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
    for address in addresses:
        if (reason := refusal(address)) and ("%" in address or not guard.allows(host.lower(), port)):
            raise FetchError(f"{progress}: may not be fetched: {reason}; `allowed_hosts` names exceptions")
    if not addresses:
        raise FetchError(f"{progress}: its host has no address that is known")
    return addresses


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


async def _resolve(host: str, port: int) -> _Lookup:
    """Resolve a host in a thread, which is abandoned if the call is cancelled."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[_Lookup] = loop.create_future()

    def look_up() -> None:
        try:
            addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            finish, result = answer.set_exception, error
        else:
            finish, result = answer.set_result, addresses
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(lambda: answer.done() or finish(cast("Any", result)))

    threading.Thread(target=look_up, name=f"address of {host}", daemon=True).start()
    return await answer


def _redirect_request(request: httpx.Request, response: httpx.Response, secrets: Collection[str] = ()) -> httpx.Request:
    """Return the request that follows from a redirect (RFC 9110, section 15.4)."""
    import httpx

    try:
        url = request.url.join(response.headers["location"])
        _ = url.host  # decodes the host, as in `_parse_url`
    except (httpx.InvalidURL, ValueError) as error:
        raise FetchError(f"{_for_display(request.url)}: redirects to an invalid URL") from error
    status, method = response.status_code, request.method
    becomes_get = method != "HEAD" if status == 303 else status in {301, 302} and method == "POST"
    dropped = {"host", "content-length", "cookie", *(["content-type"] if becomes_get else [])}
    headers = {name: value for name, value in request.headers.items() if name not in dropped}
    if not _same_origin(request.url, url):
        headers = {
            name: value
            for name, value in headers.items()
            if name in _CROSS_ORIGIN_HEADERS and not any(secret in value for secret in secrets)
        }
        if secrets and request.content and not becomes_get:
            raise FetchError(
                f"{_for_display(request.url)}: redirects to another origin, {_for_display(url.copy_with(path='/'))}, and a "
                "body with secrets is not sent there; if it is the right one, write its address as url"
            )
    return httpx.Request(
        "GET" if becomes_get else method, url, headers=headers, content=b"" if becomes_get else request.content
    )


def _same_origin(url: httpx.URL, other_url: httpx.URL) -> bool:
    """Return True if secrets for one URL may be sent to the other: to the same origin, or from http to https there."""
    if url.host != other_url.host:
        return False
    upgraded = (url.scheme, url.port, other_url.scheme, other_url.port) == ("http", None, "https", None)
    return upgraded or (url.scheme, url.port) == (other_url.scheme, other_url.port)


async def _read_body(response: httpx.Response, guard: Guard, progress: _Progress) -> bytes:
    """Return the body, uncompressed; httpx would decompress it without a limit."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"identity", "gzip", "x-gzip", ""}:
        raise FetchError(f"{progress}: is packed as {encoding[:40]!r}, which was not requested")
    decompressor = zlib.decompressobj(wbits=31) if encoding.endswith("gzip") else None
    body = bytearray()
    async for data in response.aiter_raw():
        progress.received += len(data)
        try:
            body += decompressor.decompress(data, guard.max_bytes + 1 - len(body)) if decompressor else data
        except zlib.error as error:
            raise FetchError(f"{progress}: says that it is packed as gzip, and is not") from error
        if max(len(body), progress.received) > guard.max_bytes:
            raise FetchError(f"{progress}: is larger than the maximum of {guard.max_bytes:,} bytes")
    if decompressor and progress.received and not decompressor.eof:
        raise FetchError(f"{progress}: broke off after {progress.received:,} bytes; try again", transient=True)
    return bytes(body)
