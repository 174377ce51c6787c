import json
import traceback

import pytest
from pydantic import SecretStr

from operad.operators.web.search import SearchResult, SerpApi, as_outputs
from operad.runtime.values.errors import FetchError
from operad.runtime.values.fingerprint import fingerprint

KEY = "0123456789abcdef0123456789abcdef"

FOUND = {
    "search_metadata": {"status": "Success"},
    "organic_results": [
        {
            "position": 1,
            "title": "Fig",
            "link": "https://a.org/fig",
            "snippet": "A fruit.",
            "source": "A",
            "date": "May 1",
        },
        {"position": 2, "title": "Fig 2", "link": "https://b.org/fig"},
        {"position": 3, "title": "no address"},
        "no result",
        {"position": 4, "title": None, "link": "https://c.org", "snippet": ["x"]},
    ],
}
"""An answer of SerpApi, cut short, and broken at its end."""


def provider(base_url):
    return SerpApi(api_key=SecretStr(KEY), base_url=f"{base_url}/search.json")


async def failure(web, body, status=200):
    """The error that an answer leads to."""
    said = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(FetchError) as raised:
        await provider(await web.serve(web.reply(said, status))).search("fig")
    assert KEY not in "".join(traceback.format_exception(raised.value))
    return raised.value


async def test_what_is_found_comes_in_order_and_at_most_so_many(web):
    api = provider(await web.serve(web.reply(json.dumps(FOUND).encode(), content_type="application/json")))
    assert await api.search("fig tree & co") == [
        SearchResult("Fig", "https://a.org/fig", "A fruit.", "A", "May 1"),
        SearchResult("Fig 2", "https://b.org/fig", ""),
        SearchResult("", "https://c.org", ""),
    ]
    assert len(await api.search("fig", limit=1)) == 1
    assert web.requests[0].path == f"/search.json?engine=google&q=fig+tree+%26+co&num=10&api_key={KEY}"


@pytest.mark.parametrize(
    "said",
    [{"error": "Google hasn't returned any results for this query."}, {"organic_results": []}, {}],
)
async def test_nothing_found_is_no_error(web, said):
    assert await provider(await web.serve(web.reply(json.dumps(said).encode()))).search("xyzzy") == []


@pytest.mark.parametrize(
    ("status", "said", "why", "transient"),
    [
        (401, {"error": f"Invalid API key {KEY}."}, "Invalid API key [key].; check the key", False),
        (200, {"error": "Unsupported `engine`"}, "Unsupported", False),
        (429, {"error": "Too many requests"}, "(429): Too many requests; wait", True),
        (429, {"error": "Your account has run out of searches."}, "run out of searches", False),
        (500, b"<html>oops", "(500): no reason is given", True),
        (200, b"<html>hello", "does not speak SerpApi's protocol", False),
        (200, b"[" * 100_000, "does not speak SerpApi's protocol", False),
        (200, {"error": "x" * 10_000}, "x…", False),
    ],
)
async def test_a_refusal_says_why_and_whether_to_try_again(web, status, said, why, transient):
    error = await failure(web, said, status)
    assert why in str(error)
    assert error.transient is transient


async def test_a_provider_that_is_not_there_is_worth_another_try():
    with pytest.raises(FetchError) as raised:
        await provider("http://127.0.0.1:1").search("fig")
    assert raised.value.transient
    assert KEY not in "".join(traceback.format_exception(raised.value))


def test_the_key_is_not_shown_and_makes_no_other_provider():
    api = provider("http://127.0.0.1:1")
    assert KEY not in repr(api) + str(api) + api.model_dump_json() + json.dumps(fingerprint(api))
    assert fingerprint(api) == fingerprint(api.model_copy(update={"api_key": SecretStr("another")}))


def test_outputs_have_the_names_of_google_and_common_ones():
    assert as_outputs([SearchResult("t", "u", "c", "s", "d")]) == {
        "organic_results": [{"title": "t", "link": "u", "snippet": "c"}],
        "search_results": [{"title": "t", "url": "u", "content": "c", "site_name": "s", "date": "d"}],
    }
    assert as_outputs([]) == {"organic_results": [], "search_results": []}
