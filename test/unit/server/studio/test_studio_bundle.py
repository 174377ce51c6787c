"""The bundles of all pages: of the present sources, within their budgets, and without other hosts."""

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parents[4]
BUNDLE = ROOT / "server" / "studio" / "bundle"


def built():
    path = ROOT / "server" / "studio" / "web" / "digest.py"
    spec = importlib.util.spec_from_file_location("digest", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_bundles_are_of_the_present_sources():
    module = built()
    kept = module.KEPT.read_text(encoding="utf-8").strip() if module.KEPT.exists() else "none"
    assert kept == module.digest(), "the bundles are of other sources: make studio"


def test_each_page_is_within_its_budget():
    module = built()
    sizes = module.sizes()
    assert sizes.keys() == module.BUDGET.keys()
    assert {name: size for name, size in sizes.items() if size > module.BUDGET[name]} == {}


def test_pages_of_one_file_name_what_they_contain_and_ask_for_nothing():
    for path in built().PAGES.values():
        html = path.read_text(encoding="utf-8")
        assert not re.search(r"""(?:src|href)="(?!data:|openapi\.json"|inbox")|@import|url\(""", html), path.name
        assert ("markdown-it" in html) == ("Copyright (c) 2014 Vitaly Puzrin, Alex Kocharin" in html), path.name


def test_the_page_refers_to_its_own_files_alone():
    html = (BUNDLE / "index.html").read_text(encoding="utf-8")
    named = re.findall(r'(?:src|href)="([^"]+)"', html)
    assert named
    assert all(each.startswith("./assets/") and (BUNDLE / each).is_file() for each in named if each[:5] != "data:")


def test_the_page_is_served_with_a_policy_that_allows_no_other_host(serve):
    studio = serve()
    page = studio.get("")
    policy = page.headers["content-security-policy"]
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    for name in re.findall(r'="\./(assets/[^"]+)"', page.text):
        asset = studio.get(name)
        assert asset.status_code == 200
        assert "immutable" in asset.headers["cache-control"]


def test_files_beside_the_assets_are_not_served(serve):
    studio = serve()
    for name in ("..%2findex.html", ".hidden", "%2e%2e%2f%2e%2e%2fserver.py", "no.js"):
        assert studio.get(f"assets/{name}").status_code == 404
