"""Nodes that read and make files, and those that reach the web."""

import base64
import http.server
import json
import threading
import wave
from io import BytesIO
from pathlib import Path

import pytest

from operad.flows.assemble import assemble
from operad.flows.formats.chat2workflow import parent_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.nodes import NODE_TYPES
from operad.operators.services import Services
from operad.operators.web.endpoints import ImageModel
from operad.operators.web.fetch import Guard
from operad.operators.web.search import SearchResult
from operad.runtime import FileDescriptor, Job, OperatorError
from operad.runtime.testing import ScriptedReasoner

CHINESE = "退款在七天之内到账。请先下载安装包，再运行安装程序。"
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=")


@pytest.fixture
def services(tmp_path):
    return Services(folder=tmp_path / "made")


def chain(*nodes, inputs=None, services=None):
    """The outputs of nodes one after another; those inside others are a chain of their own."""
    before, edges = {}, []
    for name, _, _ in nodes:
        if parent_of(name) in before:
            edges.append(Edge(before[parent_of(name)], name))
        before[parent_of(name)] = name
    specs = [NodeSpec(name, kind, params, parent_of(name)) for name, kind, params in nodes]
    workflow = assemble(NodeGraph(specs, edges), NODE_TYPES, services=services)
    return workflow.execute(Job(goal="go", inputs=inputs or {}), ScriptedReasoner([])).outputs


def start(**kinds):
    return "1", "start", {"variables": [[name, kind] for name, kind in kinds.items()]}


def end(variable, node="2"):
    return "end", "end", {"outputs": [["out", [variable, node]]]}


def made(kind, params, services, name="2"):
    """The files that such a node makes."""
    files = chain(start(), (name, kind, params), end("files", name), services=services)["out"]
    for file in files:
        assert isinstance(file, FileDescriptor)
        assert file.path.parent == services.folder.resolve()
        assert file.path.stat().st_size == file.size > 0
    return files


# document-extractor


@pytest.fixture
def write(tmp_path):
    def of(name, content=b"", size=0):
        path = tmp_path / name
        with path.open("wb") as file:
            file.write(content)
            file.truncate(max(size, len(content)))
        return str(path)

    return of


EXTRACT = ("2", "document-extractor", {"variable_selector": ["f", "1"]})


def read(kind, given):
    return chain(start(f=kind), EXTRACT, end("text"), inputs={"f": given})["out"]


def test_the_text_of_a_document_is_read(write):
    assert read("file", write("a.txt", b"figs\r\nare sweet")) == "figs\nare sweet"
    assert read("file", write("a.csv", b"fruit,price\nfigs,2\n")).splitlines()[-1] == "| figs | 2 |"


def test_the_texts_of_several_are_read_in_their_order(write):
    paths = [write(f"{n}.md", f"# {n}".encode()) for n in range(3)]
    assert read("array[file]", paths) == ["# 0", "# 1", "# 2"]
    assert read("array[file]", []) == []


def test_a_document_that_was_not_given_has_no_text():
    assert read("file", None) is None


def test_a_large_file_is_refused_before_it_is_read(write):
    with pytest.raises(OperatorError, match=r"operator '2' .*big\.txt: 209,715,200 bytes are more than the "):
        read("file", write("big.txt", size=200 * 2**20))


def test_what_is_no_file_is_named_with_its_variable_and_value():
    code = "def main():\n    return {'o': {'f': 'report.pdf'}}"
    nodes = [start(), ("3", "code", {"variables": [], "outputs": [["o", "object"]], "code": code})]
    nodes += [("2", "document-extractor", {"variable_selector": ["o.f", "3"]}), end("text")]
    said = r"node '2' \(document-extractor\): variable '3\.o\.f' is string, and a file is needed: \"report\.pdf\""
    with pytest.raises(OperatorError, match=said):
        chain(*nodes)


# Nodes that make files

TEXT = "# Figs\n\nThey are *sweet*.\n\n| fruit | price |\n|---|---|\n| figs | 2 |\n"


@pytest.mark.parametrize(
    ("target", "begins"),
    [
        ("pdf", b"%PDF-"),
        ("html", b"<!DOCTYPE html>"),
    ],
)
def test_markdown_becomes_a_file_of_its_kind(services, target, begins):
    [file] = made("markdown-exporter", {"target_type": target, "md_text": TEXT}, services)
    assert file.name == f"markdown-exporter-2.{target}"
    assert file.path.read_bytes().startswith(begins)


def test_the_text_of_a_file_that_was_made_can_be_read_again(services):
    nodes = [start(), ("2", "markdown-exporter", {"target_type": "docx", "md_text": TEXT})]
    nodes += [("3", "document-extractor", {"variable_selector": ["files", "2"]}), end("text", "3")]
    [text] = chain(*nodes, services=services)["out"]
    assert "| figs | 2 |" in text


def test_markdown_without_text_is_an_error_that_asks_for_the_reference(services):
    params = {"target_type": "md", "md_text": "{{#1.x#}}"}
    with pytest.raises(OperatorError, match="the text is empty; check the reference that it comes from"):
        chain(start(x="string"), ("2", "markdown-exporter", params), end("files"), inputs={"x": ""}, services=services)


def test_a_diagram_becomes_a_picture(services):
    [file] = made(
        "mermaid-converter", {"mermaid_code": "```mermaid\nflowchart TD\n  A[Figs] --> B[Jam]\n```"}, services
    )
    assert (file.name, file.mime_type) == ("mermaid-converter-2.png", "image/png")
    assert file.path.read_bytes().startswith(b"\x89PNG")


def test_a_diagram_that_is_none_is_an_error_with_its_place(services):
    with pytest.raises(OperatorError, match="operator '2'"):
        made("mermaid-converter", {"mermaid_code": "flowchart TD\n  A[Figs --> B"}, services)


def test_a_text_is_read_aloud(services):
    [file] = made("tts", {"text": "Figs are sweet."}, services)
    assert file.name == "tts-2.wav"
    assert file.mime_type.startswith("audio/")
    with wave.open(BytesIO(file.path.read_bytes())) as sound:
        assert sound.getnframes() > sound.getframerate() // 2


def test_a_voice_of_ones_own_reads(tmp_path):
    class Voice:
        async def speak(self, text):
            return text.encode(), "audio/mpeg"

    services = Services(folder=tmp_path / "made", speech=Voice())  # type: ignore[arg-type]
    [file] = made("tts", {"text": "Figs."}, services)
    assert (file.name, file.path.read_bytes()) == ("tts-2.mp3", b"Figs.")


def test_a_chart_is_a_text_that_shows_it():
    params = {"chart_type": "bar", "chart_title": "Sales", "data": "{{#1.d#}}", "x_axisORcategories": "Q1;Q2"}
    text = chain(start(d="string"), ("2", "echarts", params), end("text"), inputs={"d": "1;2.5"})["out"]
    option = json.loads(text.removeprefix("```echarts\n").removesuffix("\n```"))
    assert option["title"]["text"] == "Sales"
    assert option["series"][0]["data"] == [1, 2.5]
    with pytest.raises(OperatorError, match="1 numbers in the data and 2 categories"):
        chain(start(d="string"), ("2", "echarts", params), end("text"), inputs={"d": "1"})


def test_without_a_model_for_images_one_line_says_what_to_set(services):
    with pytest.raises(OperatorError) as caught:
        made("text2image", {"prompt": "A fig."}, services)
    said = str(caught.value.__cause__)
    assert said == (
        "node '2' (text2image): no model makes images; for operad run, set OPERAD_IMAGE_MODEL and OPENAI_API_KEY, "
        "or services: images: in YAML; in Python, give Services(images=ImageModel(…))"
    )


# Names


def test_files_of_one_name_do_not_overwrite_each_other(services):
    params = {"target_type": "md", "md_text": "one"}
    first, second = made("markdown-exporter", params, services), made("markdown-exporter", params, services)
    names = [file.name for file in (*first, *second)]
    assert names == ["markdown-exporter-2.md", "markdown-exporter-2-2.md"]


def test_each_item_of_an_iteration_has_its_own_file(services):
    nodes = [start(xs="array[string]")]
    nodes += [("2", "iteration", {"iterator_selector": ["xs", "1"], "output_selector": ["files", "2-2"]})]
    nodes += [("2-1", "iteration-start", {})]
    nodes += [("2-2", "markdown-exporter", {"target_type": "md", "md_text": "{{#2.item#}}"}), end("output")]
    files = chain(*nodes, inputs={"xs": ["a", "b", "c"]}, services=services)["out"]
    assert [file.path.read_text() for file in files] == ["a", "b", "c"]
    assert len({file.path for file in files}) == 3


@pytest.mark.parametrize("name", ["../../up", "/etc/x", "a/b\\c", "..", "x" * 500, "\0", "名字", "con:"])
def test_whatever_the_id_of_a_node_its_files_stay_in_the_folder(services, name):
    [file] = made("markdown-exporter", {"target_type": "md", "md_text": "one"}, services, name)
    assert [path.name for path in services.folder.iterdir()] == [file.name]


def test_a_folder_that_cannot_be_written_to_is_said(tmp_path):
    (tmp_path / "made").write_text("a file")
    with pytest.raises(OperatorError, match=r"made: markdown-exporter-2\.md cannot be written: "):
        made("markdown-exporter", {"target_type": "md", "md_text": "one"}, Services(folder=tmp_path / "made"))


# The web


class Pages(http.server.BaseHTTPRequestHandler):
    """A page, JSON, a picture, a page in another encoding, nothing, and an endpoint for images."""

    PAGES = {  # noqa: RUF012
        "/page": ("text/html; charset=utf-8", b"<p>Figs</p>"),
        "/data": ("application/json", b'{"fruit": "fig"}'),
        "/picture": ("image/png", PNG),
        "/gbk": ("text/plain; charset=gbk", CHINESE.encode("gbk")),
    }

    def log_message(self, format, *args):
        pass

    def do_GET(self):
        kind, body = self.PAGES.get(self.path, ("text/plain", b"nothing here"))
        self.answer(200 if self.path in self.PAGES else 404, kind, body)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        image = {"b64_json": base64.b64encode(PNG).decode()}
        self.answer(200, "application/json", json.dumps({"created": 0, "data": [image]}).encode())

    def answer(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def host():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def fetched(url, services):
    nodes = [start(url="string"), ("2", "http-request", {"url": ["url", "1"]})]
    nodes += [("end", "end", {"outputs": [[n, [n, "2"]] for n in ("body", "status_code", "headers", "files")]})]
    return chain(*nodes, inputs={"url": url}, services=services)


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/page", 200, "<p>Figs</p>"),
        ("/gbk", 200, CHINESE),
        ("/missing", 404, "nothing here"),
    ],
)
def test_an_address_is_fetched(host, path, status, body):
    said = fetched(f"http://{host}{path}", Services(guard=Guard(allowed_hosts=(host,))))
    assert (said["status_code"], said["body"], said["files"]) == (status, body, [])
    assert said["headers"]["content-length"]


def test_what_is_no_text_becomes_a_file(host, tmp_path):
    said = fetched(f"http://{host}/picture", Services(folder=tmp_path, guard=Guard(allowed_hosts=(host,))))
    [file] = said["files"]
    assert (said["body"], file.name, file.path.read_bytes()) == ("", "http-request-2.png", PNG)


def test_a_host_of_this_machine_is_not_reached_unless_it_is_allowed(host):
    with pytest.raises(OperatorError, match="operator '2'"):
        fetched(f"http://{host}/page", Services())


def test_an_address_that_is_not_there_is_an_error_that_names_the_variable():
    said = r"node '2' \(http-request\): variable '1\.url' is string, and an address is needed: \"\""
    with pytest.raises(OperatorError, match=said):
        fetched("", Services())


def test_an_image_is_made_by_an_endpoint(host, tmp_path):
    services = Services(folder=tmp_path / "made", images=ImageModel(name="painter", base_url=f"http://{host}/v1"))
    [file] = made("text2image", {"prompt": "A fig."}, services)
    assert (file.name, file.path.read_bytes()) == ("text2image-2.png", PNG)


SEARCH = ("2", "google-search", {"query": "about {{#1.q#}}"})


def test_without_a_provider_a_search_says_what_to_set():
    with pytest.raises(
        OperatorError,
        match="no search provider is set; for operad run, set SERPAPI_API_KEY, or services: search: in YAML",
    ):
        chain(start(q="string"), SEARCH, end("json"), inputs={"q": "figs"})


def test_a_search_gives_what_was_found_in_both_forms():
    class Found:
        async def search(self, query, *, limit=10):
            return [SearchResult(title="Figs", url="https://example.org/figs", content=query, site_name="Example")]

    services = Services(search=Found())
    said = chain(start(q="string"), SEARCH, end("json"), inputs={"q": "figs"}, services=services)["out"]
    [organic], [found] = said["organic_results"], said["search_results"]
    assert organic == {"title": "Figs", "link": "https://example.org/figs", "snippet": "about figs"}
    assert (found["url"], found["content"], found["site_name"]) == ("https://example.org/figs", "about figs", "Example")


def test_the_number_of_a_file_is_not_searched_from_the_start(tmp_path, monkeypatch):
    services, opened, open_file = Services(folder=tmp_path), [], Path.open

    def count(path, mode="r", *rest, **named):
        opened.append(path)
        return open_file(path, mode, *rest, **named)

    monkeypatch.setattr(Path, "open", count)
    (tmp_path / "chart-2.png").write_bytes(b"of another process")
    opened.clear()
    made = [Path(services.write("chart", ".png", b"data").path).name for _ in range(20)]
    assert made == ["chart.png", *(f"chart-{number}.png" for number in range(3, 22))]
    assert Path(services.write("chart", ".svg", b"data").path).name == "chart.svg"
    assert len(opened) == 22
