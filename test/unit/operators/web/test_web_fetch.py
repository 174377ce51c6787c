import asyncio
import gzip
import logging
import re
import shutil
import socket
import ssl
import subprocess
import threading
import traceback
import zlib
from ipaddress import ip_address
from types import SimpleNamespace
from typing import Any

import pytest

from operad.operators.web.fetch import Fetched, Guard, _certificates, fetch, refusal
from operad.runtime.policies.policy import Retry
from operad.runtime.values.errors import FetchError

SECRET = "hunter22hunter22"  # noqa: S105


def guarded(*addresses, **bounds):
    """A guard that lets these addresses through."""
    return Guard(allowed_hosts=tuple(address.partition("//")[2] for address in addresses), **bounds)


async def refused(url, guard=None, **request):
    """The error that a fetch ends with."""
    with pytest.raises(FetchError) as raised:
        await fetch(url, guard=guard or Guard(timeout=20), **request)
    return raised.value


def shown(error):
    """All that a traceback shows of it."""
    return "".join(traceback.format_exception(type(error), error, error.__traceback__.tb_next))


@pytest.fixture
def names(monkeypatch):
    """Names and their addresses, instead of those of the network; each look-up is remembered."""

    known = SimpleNamespace(addresses={}, asked=[])

    def look_up(host, port, family=0, type=0, proto=0, flags=0):
        known.asked.append(host)
        found: Any = known.addresses[host]
        return [
            (socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in (found if isinstance(found, list) else found())
        ]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return known


# What is answered


async def test_an_answer_comes_with_its_status_type_headers_and_body(web):
    host = await web.serve(web.reply(b"hello", content_type="text/plain; charset=UTF-8", x_more="a"))
    answer = await fetch(f"{host}/page?q=1", guard=guarded(host))
    assert (answer.status, answer.url, answer.body) == (200, f"{host}/page?q=1", b"hello")
    assert (answer.content_type, answer.headers["x-more"], answer.text()) == ("text/plain", "a", "hello")
    [request] = web.requests
    assert (request.method, request.path) == ("GET", "/page?q=1")
    assert "operad" in request.headers["user-agent"]


async def test_method_headers_parameters_and_body_are_sent(web):
    host = await web.serve(web.reply())
    request = {"method": "post", "headers": {"X-Token": "t"}, "params": {"b": "ä &"}, "body": "text ü"}
    await fetch(f"{host}/?a=1", guard=guarded(host), **request)
    [asked] = web.requests
    assert (asked.method, asked.headers["x-token"], asked.body) == ("POST", "t", "text ü".encode())
    assert asked.path == "/?a=1&b=%C3%A4+%26"


@pytest.mark.parametrize("status", [204, 304, 404, 500])
async def test_a_status_is_an_answer_not_an_error(web, status):
    host = await web.serve(web.reply(b"" if status in {204, 304} else b"no", status))
    assert (await fetch(host, guard=guarded(host))).status == status


@pytest.mark.parametrize("around", [' "{}" ', "<{}>", "`{}`\n", "“{}”", "'{}'"])
async def test_what_a_model_writes_around_an_address_is_left_out(web, around):
    host = await web.serve(web.reply(b"x"))
    assert (await fetch(around.format(f"{host}/a"), guard=guarded(host))).url == f"{host}/a"


async def test_a_packed_body_is_unpacked(web):
    host = await web.serve(web.reply(gzip.compress(b"a" * 100_000), content_encoding="gzip"))
    assert (await fetch(host, guard=guarded(host))).body == b"a" * 100_000
    assert web.requests[0].headers["accept-encoding"] == "gzip"


async def test_proxies_of_the_environment_are_not_used(web, monkeypatch):
    host = await web.serve(web.reply(b"direct"))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert (await fetch(host, guard=guarded(host))).body == b"direct"


# Text

CHINESE = "这是一个用来测试的网页，里面有一些中文内容。"


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (CHINESE.encode(), "text/html"),
        (CHINESE.encode("gbk"), "text/html; charset=gb2312"),
        (CHINESE.encode("gbk"), 'text/html; charset="GBK"'),
        (CHINESE.encode("gbk"), "text/plain"),
        (f"<meta charset='gbk'>{CHINESE}".encode("gbk"), "text/html"),
        (f'<meta http-equiv="x" content="text/html; charset=gb18030">{CHINESE}'.encode("gbk"), ""),
        (f'<?xml version="1.0" encoding="big5"?>{"測試"}'.encode("big5"), "application/xml"),
        (CHINESE.encode("utf-8-sig"), "text/html; charset=gbk"),
        (CHINESE.encode("utf-16"), ""),
        (CHINESE.encode(), "text/html; charset=no-such"),
        (CHINESE.encode(), "text/html; charset=punycode"),  # quadratic in Python
        (CHINESE.encode(), "text/html; charset=hex"),
        (f"<meta charset=utf-16>{CHINESE}".encode(), "text/html"),
    ],
)
def test_text_is_decoded_as_it_was_meant(body, content_type):
    text = Fetched(200, "", {"content-type": content_type}, body).text()
    assert text.endswith((CHINESE, "測試"))
    assert "\ufffd" not in text


def test_bytes_that_are_no_text_become_replacement_characters():
    assert "\ufffd" in Fetched(200, "", {"content-type": "text/plain; charset=utf-8"}, b"a\xff\xfe").text()
    assert Fetched(200, "", {}, bytes(range(256)) * 10).text()


# What is not an address


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "is empty"),
        (' "" ', "is empty"),
        ("example.com/a?b", "did you mean https://example.com/a?"),
        ("//example.com/a", "did you mean https://example.com/a?"),
        ("localhost:8080/x", "did you mean https://localhost:8080/x?"),
        ("javascript:alert(1)", "not 'javascript'"),
        ("data:text/plain,hi", "not 'data'"),
        ("file:///etc/passwd", "only http and https are fetched, not 'file'"),
        ("ftp://example.com/x", "not 'ftp'"),
        ("http://", "has no host"),
        ("http://[::1/", "is not a valid URL"),
        ("http://exa mple.com/", "may not be fetched"),
        ("http://a\nb.com/", "is not a valid URL"),
        ("http://example.com:99999/", "port"),
        ("http://example.com:0/", "there is no port 0"),
        ("https://example.com/" + "a" * 9_000, "more than the maximum of 8,000"),
        ("https://example.com/" + "a" * 99_000, "is not a valid URL"),
    ],
)
async def test_what_is_no_address_says_why(url, why):
    error = await refused(url)
    assert why in str(error)
    assert len(str(error)) < 500
    assert not error.transient


@pytest.mark.parametrize(
    "url", [f"http://me:{SECRET}@127.0.0.1/", f"http://me:{SECRET[:8]}/{SECRET[8:]}@h/", f"me:{SECRET}@example.com"]
)
async def test_a_password_in_an_address_is_refused_and_not_repeated(url):
    error = await refused(url)
    assert SECRET[:8] not in shown(error)


async def test_queries_are_neither_in_errors_nor_in_logs(web, caplog):
    caplog.set_level(logging.INFO)
    host = await web.serve(web.reply(b"x" * 100))
    answer = await fetch(f"{host}/?key={SECRET}", guard=guarded(host))
    errors = [
        await refused(f"{host}/?key={SECRET}", guarded(host, max_bytes=10)),
        await refused(f"http://127.0.0.1/?key={SECRET}"),
        await refused(f"http://localhost:1/?key={SECRET}", Guard(("localhost:1",))),
        await refused(f"example.com/?key={SECRET}"),
        await refused(host, guarded(host), headers={"Authorization": f"{SECRET}\n"}),
    ]
    assert [error for error in errors if SECRET in shown(error)] == []
    assert SECRET not in caplog.text + repr(answer)


# What may not be reached


@pytest.mark.parametrize(
    "host",
    """127.0.0.1 127.1 127.0.1 0x7f000001 0x7f.1 2130706433 017700000001 0177.0.0.1 0 0.0.0.0 127。0。0。1 ①②⑦.0.0.1
    localhost LOCALHOST localhost. [::1] [::] [::ffff:127.0.0.1] [::127.0.0.1] [64:ff9b::7f00:1] [2002:7f00:1::]
    10.0.0.1 172.16.0.1 192.168.1.1 100.64.0.1 169.254.169.254 168.63.129.16 [fe80::1] [fd00::1] [fd00:ec2::254] 100.100.100.200
    xn--localhost xn--localhost- 224.0.0.1 [ff02::1] 255.255.255.255 240.0.0.1""".split(),
)
async def test_what_is_not_public_is_refused_in_every_spelling(host):
    for scheme in ("http", "https"):
        error = await refused(f"{scheme}://{host}:8000/")
        assert not error.transient
        assert not Retry().wants(error)
        # IDNA refuses some before anybody asks where they lead, and not every resolver knows all.
        assert re.search("may not be fetched|is not a valid URL|has no address", str(error))


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["93.184.216.34", "10.0.0.1"], ["::ffff:10.0.0.1"]])
async def test_a_name_that_leads_to_a_private_address_is_refused(names, addresses):
    names.addresses["public.test"] = addresses
    assert "may not be fetched" in str(await refused("http://public.test/"))


async def test_the_address_that_was_checked_is_the_one_that_is_connected_to(web, names):
    host = await web.serve(web.reply(b"here"))
    port = host.rpartition(":")[2]
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])
    names.addresses["changing.test"] = lambda: next(answers)
    answer = await fetch(f"http://changing.test:{port}/", guard=Guard((f"changing.test:{port}",)))
    assert answer.body == b"here"
    assert names.asked == ["changing.test"]
    assert web.requests[0].headers["host"] == f"changing.test:{port}"


async def test_the_next_address_is_tried_if_one_does_not_answer(web, names):
    host = await web.serve(web.reply(b"here"))
    port = host.rpartition(":")[2]
    names.addresses["two.test"] = ["127.0.0.9", "127.0.0.1"]
    assert (await fetch(f"http://two.test:{port}/", guard=Guard(("two.test",)))).body == b"here"
    assert len(web.requests) == 1


@pytest.fixture
def certificate(tmp_path, monkeypatch):
    """A server's certificate for the name secure.test, which is trusted."""
    file = tmp_path / "secure.pem"
    names = ["-subj", "/CN=secure.test", "-addext", "subjectAltName=DNS:secure.test"]
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
    subprocess.run([*command, "-keyout", str(file), "-out", str(tmp_path / "cert")], check=True, capture_output=True)
    file.write_text(file.read_text() + (tmp_path / "cert").read_text())
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert"))
    _certificates.cache_clear()
    yield file
    _certificates.cache_clear()


async def test_a_certificate_is_verified_for_the_name_and_not_for_the_address(certificate, names):
    names.addresses |= {name: ["127.0.0.1"] for name in ("secure.test", "secure.test.", "other.test", "127.0.0.1")}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    seen = []
    context.sni_callback = lambda _, name, __: seen.append(name)

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nsafe")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    guard = Guard(("secure.test", "secure.test.", "other.test", "127.0.0.1"), timeout=20)
    async with server:
        for host in ("secure.test", "secure.test."):
            assert (await fetch(f"https://{host}:{port}/", guard=guard)).body == b"safe"
        for host in ("other.test", "127.0.0.1"):
            error = await refused(f"https://{host}:{port}/", guard)
            assert "certificate verify failed" in str(error)
    assert seen == ["secure.test", "secure.test", "other.test", None]


async def test_a_host_is_allowed_at_all_ports_or_at_one(web):
    host = await web.serve(web.reply(b"x"))
    port = int(host.rpartition(":")[2])
    assert (await fetch(host, guard=Guard(("127.0.0.1",)))).status == 200
    assert "may not be fetched" in str(await refused(host, Guard((f"127.0.0.1:{port + 1}",))))
    assert "allowed_hosts" in str(await refused(f"http://localhost:{port}", Guard((f"127.0.0.1:{port}",))))


# Redirects


async def test_redirects_are_followed_and_keep_cookies(web):
    def answer(request):
        if request.path == "/a":
            return web.reply(status=302, location="b?x=1", set_cookie="seen=1")
        return web.reply(request.headers.get("cookie", "").encode())

    host = await web.serve(answer)
    found = await fetch(f"{host}/a", guard=guarded(host))
    assert (found.url, found.body) == (f"{host}/b?x=1", b"seen=1")


@pytest.mark.parametrize(
    ("status", "sent"), [(301, ("GET", b"")), (302, ("GET", b"")), (303, ("GET", b"")), (307, ("POST", b"form"))]
)
async def test_a_redirect_sends_a_body_on_only_where_it_says_so(web, status, sent):
    host = await web.serve(
        lambda request: web.reply(status=status, location="/b") if request.path == "/a" else web.reply()
    )
    await fetch(f"{host}/a", method="POST", body=b"form", headers={"Content-Type": "x/y"}, guard=guarded(host))
    assert (web.requests[1].method, web.requests[1].body) == sent
    assert ("content-type" in web.requests[1].headers) == (status == 307)


async def test_another_origin_is_not_told_secrets(web):
    other = await web.serve(web.reply())
    host = await web.serve(web.reply(status=307, location=f"{other}/"))
    secrets = {"Authorization": "t", "X-Api-Key": "k", "Cookie": "c=1", "Accept": "text/html"}
    await fetch(host, headers=secrets, guard=guarded(host, other))
    first, second = (request.headers for request in web.requests)
    assert {"authorization", "x-api-key", "cookie"} < first.keys()
    assert not {"authorization", "x-api-key", "cookie"} & second.keys()
    assert second["accept"] == "text/html"
    assert second["host"] == other.partition("//")[2]


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("http://127.0.0.1:1/", "http://127.0.0.1:1/ (where http://127.0.0.1:"),
        ("http://169.254.169.254/latest/meta-data", "may not be fetched"),
        ("//[::1]/", "may not be fetched"),
        ("http://168.63.129.16/", "tells a virtual machine"),
        ("http://xn--localhost/", "redirects to an invalid URL"),
        ("file:///etc/passwd", "not 'file'"),
        (f"http://a:{SECRET}@example.com/", "password"),
        ("http://a:b/", "redirects to an invalid URL"),
        ("/loop", "redirects more than the maximum of 5 times"),
    ],
)
async def test_each_redirect_is_checked(web, location, why):
    host = await web.serve(web.reply(status=302, location=location))
    error = await refused(f"{host}/start", guarded(host))
    assert why in str(error)
    assert SECRET not in shown(error)
    assert not error.transient


# Bounds


async def endless(head, part, pause=0.0):
    yield head
    while True:
        yield part
        await asyncio.sleep(pause)


async def test_a_body_without_end_is_cut_off_by_its_size(web):
    host = await web.serve(lambda _: endless(web.reply(content_length=None), b"x" * 10_000))
    error = await refused(host, guarded(host, max_bytes=100_000))
    assert "larger than the maximum of 100,000 bytes" in str(error)
    assert not error.transient


async def test_a_body_that_drips_is_cut_off_by_its_time(web):
    host = await web.serve(lambda _: endless(web.reply(content_length=None), b"x", 0.01))
    error = await refused(host, guarded(host, timeout=0.3))
    assert "longer than the maximum of 0.3 s" in str(error)
    assert error.transient
    assert Retry().wants(error)


async def test_headers_that_drip_are_cut_off_by_their_time(web):
    host = await web.serve(lambda _: endless(b"HTTP/1.1 200 OK\r\n", b"a: b\r\n", 0.01))
    assert "longer than" in str(await refused(host, guarded(host, timeout=0.3)))


async def test_headers_without_end_are_cut_off(web):
    host = await web.serve(lambda _: endless(b"HTTP/1.1 200 OK\r\n", b"a: " + b"b" * 5_000 + b"\r\n"))
    assert "cannot be fetched" in str(await refused(host, guarded(host)))


async def test_a_body_that_unpacks_to_too_much_is_cut_off(web):
    bomb = gzip.compress(bytes(50 * 2**20))
    host = await web.serve(web.reply(bomb, content_encoding="gzip"))
    assert "larger than the maximum of 1,048,576 bytes" in str(await refused(host, guarded(host, max_bytes=2**20)))


async def test_a_packed_body_that_unpacks_to_nothing_without_end_is_cut_off(web):
    packer = zlib.compressobj(wbits=31)
    start = packer.compress(b"") + packer.flush(zlib.Z_SYNC_FLUSH)
    flush = packer.flush(zlib.Z_SYNC_FLUSH) or b"\0\0\0\xff\xff"
    head = web.reply(start, content_length=None, content_encoding="gzip")
    host = await web.serve(lambda _: endless(head, flush * 1000))
    assert "larger than the maximum of 50,000 bytes" in str(await refused(host, guarded(host, max_bytes=50_000)))


@pytest.mark.parametrize(
    ("packing", "body", "why"),
    [
        ("gzip", b"not packed", "and is not"),
        ("gzip", gzip.compress(b"a" * 1000)[:-12], "broke off"),
        ("br", b"x", "'br', which was not requested"),
        ("gzip, gzip", gzip.compress(gzip.compress(b"x")), "not requested"),
    ],
    ids=["not packed", "cut off", "unknown", "packed twice"],  # packed bytes hold the time
)
async def test_a_body_that_cannot_be_unpacked_is_an_error(web, packing, body, why):
    host = await web.serve(web.reply(body, content_encoding=packing))
    assert why in str(await refused(host, guarded(host)))


async def test_a_name_that_is_not_found_in_time_is_an_error(names):
    go_on = threading.Event()
    names.addresses["slow.test"] = lambda: go_on.wait(60) and ["127.0.0.1"]
    error = await refused("http://slow.test/", Guard(timeout=0.1))
    go_on.set()
    assert "longer than the maximum of 0.1 s" in str(error)


@pytest.mark.parametrize(("code", "transient"), [(socket.EAI_AGAIN, True), (socket.EAI_NONAME, False)])
async def test_a_name_that_is_not_known_says_so(names, code, transient):
    def unknown():
        raise socket.gaierror(code, "no such name")

    names.addresses["unknown.test"] = unknown
    error = await refused("http://unknown.test/")
    assert "no such name" in str(error)
    assert error.transient is transient


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc", b"SSH-2.0 hello\r\n"])
async def test_a_connection_that_breaks_is_worth_another_try(web, said):
    host = await web.serve(said)
    error = await refused(host, guarded(host))
    assert "cannot be fetched" in str(error)
    assert error.transient


async def test_nobody_at_home_is_worth_another_try():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        host = f"http://127.0.0.1:{closed.getsockname()[1]}"
        assert (await refused(host, guarded(host))).transient


async def test_a_fetch_that_is_cancelled_lets_go_of_its_connection(web):
    asked, gone = asyncio.Event(), asyncio.Event()

    async def answer():
        try:
            asked.set()
            async for part in endless(web.reply(content_length=None), b"x", 0.01):
                yield part
        finally:
            gone.set()

    host = await web.serve(lambda _: answer())
    fetching = asyncio.ensure_future(fetch(host, guard=guarded(host)))
    await asked.wait()
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    await gone.wait()


# Which IP addresses are public


@pytest.mark.parametrize(
    "address",
    """0.0.0.0 0.1.2.3 10.0.0.0 10.255.255.255 100.64.0.0 100.100.100.200 100.127.255.255 127.0.0.1 127.255.255.255
    168.63.129.16 169.254.0.0 169.254.169.254 169.254.170.2 172.16.0.0 172.31.255.255 192.0.0.8 192.0.0.192 192.0.2.1
    192.88.99.1 192.168.0.0 192.168.255.255 198.18.0.0 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.250
    240.0.0.1 255.255.255.255
    :: ::1 ::7f00:1 ::808:808 ::ffff:127.0.0.1 ::ffff:a9fe:a9fe ::ffff:168.63.129.16 ::ffff:0:127.0.0.1 ::ffff:0:8.8.8.8
    64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::808:808 100::1 100:0:0:1::1 2001::1 2001:0:7f00:1:: 2001:2::1 2001:db8::1
    2002:7f00:1:: 2002:808:808:: 3fff::1 4000::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1 fe80::1%lo ::1%lo fec0::1 ff02::1
    2606:4700::5efe:7f00:1 2606:4700::200:5efe:a9fe:a9fe 2606:4700::1111%eth0 8.8.8.8%x 1 localhost 127.1 0x7f000001""".split(),
)
def test_an_address_that_is_not_public_is_refused_with_the_reason(address):
    assert refusal(address)


@pytest.mark.parametrize(
    "address",
    """1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 93.184.216.34 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.1
    168.63.129.15 169.253.255.255 172.15.255.255 172.32.0.0 192.0.1.1 192.167.255.255 192.169.0.0 198.17.255.255
    198.20.0.0 223.255.255.255
    2000::1 2606:4700::1111 2a00:1450:4001::200e 2001:200::1 2001:4860:4860::8888 2003::1 2606:4700::5efe:808:808
    ::ffff:8.8.8.8 64:ff9b::808:808""".split(),
)
def test_a_public_address_is_not_refused(address):
    assert refusal(address) == ""


def test_the_reason_names_the_network_and_where_the_packets_arrive():
    assert refusal("127.0.0.1") == "127.0.0.0/8 is Loopback (RFC 1122)"
    assert refusal("::1") == "::1/128 is Loopback (RFC 4291)"
    assert refusal("64:ff9b::7f00:1") == ("64:ff9b::7f00:1 leads to 127.0.0.1, and 127.0.0.0/8 is Loopback (RFC 1122)")


def test_what_python_knows_to_be_private_is_refused():
    begins = [ip_address(first << 24) for first in range(256)] + [
        ip_address(first << 112) for first in range(1, 2**16, 16)
    ]
    assert [each for each in begins if not each.is_global and not refusal(str(each))] == []
