"""A studio that is served on this machine."""

import re
from contextlib import ExitStack
from typing import Any, cast

import httpx
import pytest
from local_http import NO_AUTHORITIES
from studio_page import served, tabs
from studios import FIVE, Client

from operad.server.studio.files.folder import Folder
from operad.server.studio.server import Studio
from operad.server.view.server import PageServer


@pytest.fixture
def serve(tmp_path):
    """Serves a studio until the test's end: a client of it."""
    with ExitStack() as stack:

        def serve(folder=None, only=None, **named):
            folder = folder or tmp_path / "folder"
            folder.mkdir(exist_ok=True)
            site = Studio(Folder(folder, only), tmp_path / "histories", **named)
            url = stack.enter_context(PageServer(site)).url
            return Client(
                url, folder, stack.enter_context(httpx.Client(timeout=60, trust_env=False, verify=NO_AUTHORITIES))
            )

        yield serve


@pytest.fixture
def studio(serve):
    """A client of a studio whose folder holds one workflow of five nodes."""
    client = serve()
    (client.folder / "five.yaml").write_text(FIVE)
    return client


@pytest.fixture
def edit(serve):
    """Does operations on a file of experts: its text after them, and the document."""
    studio = serve()

    def edit(text, *operations):
        (studio.folder / "file.yaml").write_text(text)
        document = studio.apply(studio.open("file.yaml"), *operations)
        return (studio.folder / "file.yaml").read_text(), document

    cast("Any", edit).studio = studio
    return edit


@pytest.fixture(scope="module")
def site(tmp_path_factory, browser):
    """A studio that all tests of this module share, and a browser: its address, its folder, the browser."""
    folder = tmp_path_factory.mktemp("folder")
    with served(folder, tmp_path_factory.mktemp("histories")) as url:
        yield url, folder, browser


@pytest.fixture
def page(site):
    """Opens the studio in new tabs of the shared browser."""
    url, folder, browser = site
    with tabs(browser, url, folder) as opened:
        yield opened


@pytest.fixture
def opened(site, page, request):
    """Opens a new file with a text in a new tab of the shared browser."""

    def opened(text, suffix=".yaml", **options):
        name = re.sub(r"\W", "_", request.node.name)[:60] + suffix
        (site[1] / name).write_text(text)
        tab = page(**options)
        tab.open(name)
        return tab

    return opened


@pytest.fixture
def five(site, request):
    """The name of a new file with a workflow of five nodes."""
    name = f"{request.node.name[:40]}.yaml"
    (site[1] / name).write_text(FIVE)
    return name
