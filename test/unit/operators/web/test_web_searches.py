"""Searches by SearXNG, Tavily and DuckDuckGo, each of a local server."""

import json
import traceback

import pytest
from pydantic import SecretStr

from operad.operators.web.search import DuckDuckGo, SearchResult, SearxNG, Tavily
from operad.runtime.values.errors import FetchError

KEY = "tvly-0123456789abcdef"
RESULTS = {
    "results": [{"title": "Fig", "url": "https://a.org", "content": "A fruit.", "engine": "bing"}, {"title": "x"}, 7]
}
PAGE = """<div class="result"><a rel="nofollow" class="result__a" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.org%2Ffig&amp;rut=1">
The <b>Fig</b> &amp; co</a><a class="result__snippet" href="x">A <b>sweet</b> fruit.</a></div>
<a class="result__a" href="https://duckduckgo.com/y.js?ad=1">Ad</a><a class="result__snippet">Buy</a>
<a class="result__a" href="https://b.org">B</a>"""


async def test_searxng_is_asked_for_json(web):
    server = SearxNG(base_url=await web.serve(web.reply(json.dumps(RESULTS).encode())))
    assert await server.search("fig & co") == [SearchResult("Fig", "https://a.org", "A fruit.", "bing")]
    assert web.requests[0].path == "/search?q=fig+%26+co&format=json"


async def test_tavily_gets_its_key_in_a_header_and_no_error_shows_it(web):
    api = Tavily(api_key=SecretStr(KEY), base_url=await web.serve(web.reply(json.dumps(RESULTS).encode())))
    assert [each.url for each in await api.search("fig", limit=3)] == ["https://a.org"]
    request = web.requests[0]
    assert (request.method, request.path, request.headers["authorization"]) == ("POST", "/search", f"Bearer {KEY}")
    assert json.loads(request.body) == {"query": "fig", "max_results": 3}
    refused = Tavily(api_key=SecretStr(KEY), base_url=await web.serve(web.reply(f"bad key {KEY}".encode(), 401)))
    with pytest.raises(FetchError, match="check the key") as raised:
        await refused.search("fig")
    assert KEY not in "".join(traceback.format_exception(raised.value))
    assert KEY not in repr(api)


async def test_duckduckgos_page_is_read_without_advertisements(web):
    page = DuckDuckGo(base_url=await web.serve(web.reply(PAGE.encode())))
    assert await page.search("fig") == [
        SearchResult("The Fig & co", "https://a.org/fig", "A sweet fruit."),
        SearchResult("B", "https://b.org", ""),
    ]
    assert web.requests[0].body == b"q=fig"


@pytest.mark.parametrize(
    ("provider", "body", "status", "said"),
    [
        (SearxNG, b"<html>", 200, "answers no JSON"),
        (SearxNG, b"{}", 200, "without a list"),
        (SearxNG, b"no", 403, "does it allow this format"),
        (DuckDuckGo, b"anomaly", 202, "whether a person searches"),
        (DuckDuckGo, b"", 500, "no reason is given"),
    ],
)
async def test_what_goes_wrong_is_said(web, provider, body, status, said):
    with pytest.raises(FetchError, match=said):
        await provider(base_url=await web.serve(web.reply(body, status))).search("fig")
