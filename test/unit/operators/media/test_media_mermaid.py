import io
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from operad.operators.media import errors, mermaid
from operad.operators.media.errors import MediaError
from operad.operators.media.mermaid import render_mermaid
from operad.runtime import MissingExtraError
from operad.runtime.values.pip import pip_install

FLOW = "flowchart LR\n  a[Pick figs] --> b{Ripe?}\n  b -->|yes| c[Dry]\n  b -->|no| a\n"


def words(svg):
    return "".join(ElementTree.fromstring(svg).itertext())  # noqa: S314


def picture(png):
    return import_module("PIL.Image").open(io.BytesIO(png)).convert("L")


@pytest.mark.parametrize(
    "code",
    [
        FLOW,
        "sequenceDiagram\n  Ann->>Bob: figs\n",
        "classDiagram\n  Fruit <|-- Fig\n",
        "stateDiagram-v2\n  [*] --> Ripe\n",
        "erDiagram\n  TREE ||--o{ FIG : bears\n",
        'pie title Fruit\n  "figs" : 2\n  "dates" : 3\n',
        "gantt\n  dateFormat YYYY-MM-DD\n  section Harvest\n  pick :a1, 2024-08-01, 30d\n",
        "mindmap\n  root((fruit))\n    figs\n",
        "---\ntitle: Fruit\n---\nflowchart TD\n  a --> b\n",
        "%%{init: {'theme': 'dark'}}%%\nflowchart TD\n  a --> b\n",
    ],
)
def test_a_diagram_is_drawn_as_svg_and_as_png(code):
    assert render_mermaid(code, "svg").startswith(b"<svg")
    drawn = picture(render_mermaid(code, "png"))
    assert min(drawn.size) > 50
    assert drawn.getextrema()[0] < 200


def test_labels_are_in_the_svg_chinese_ones_too():
    text = words(render_mermaid("flowchart LR\n  a[开始] -->|安装| b[Pick figs]\n", "svg"))
    for label in ("开始", "安装", "Pick figs"):
        assert label in text


@pytest.mark.parametrize(
    "text",
    [
        f"```mermaid\n{FLOW}```",
        f"\n```\n{FLOW}```\n",
        f"Here it is:\n\n```mermaid\n{FLOW}```\n\nEnjoy.\n\n```mermaid\nbroken\n```",
        f"~~~ Mermaid\n{FLOW}~~~",
        f"```mermaid\n{FLOW}",
    ],
)
def test_the_first_block_of_it_is_taken(text):
    assert render_mermaid(text, "svg") == render_mermaid(FLOW, "svg")


def test_letters_that_no_font_has_are_an_error_for_png_alone(monkeypatch):
    monkeypatch.setattr(import_module("typst"), "Fonts", lambda font_paths: SimpleNamespace(fonts=list))
    code = "flowchart LR\n  a[开始] --> b\n"
    assert "开始" in words(render_mermaid(code, "svg"))
    with pytest.raises(MediaError, match=r"mermaid to png: no installed font has the letters 始开; .*fonts-noto-cjk"):
        render_mermaid(code, "png")


@pytest.mark.parametrize("target", ["svg", "png"])
def test_a_wrong_diagram_is_an_error_with_its_line_and_column(target):
    with pytest.raises(
        MediaError, match=rf"^mermaid to {target}: line 3, column 1: Parse error on line 3:.*\(syntax\)$"
    ):
        render_mermaid("flowchart LR\na[--b", target)
    with pytest.raises(MediaError, match=rf"^mermaid to {target}: No diagram type detected"):
        render_mermaid("figs", target)


@pytest.mark.parametrize("code", ["", " \n", "```mermaid\n\n```"])
def test_empty_code_is_an_error(code):
    with pytest.raises(MediaError, match="mermaid to svg: the text is empty"):
        render_mermaid(code, "svg")


def test_an_unknown_target_is_an_error_that_names_the_known_ones():
    with pytest.raises(MediaError, match=r"there is no target 'pgn' \(did you mean 'png'\?\); there are svg, png"):
        render_mermaid(FLOW, "pgn")  # pyright: ignore[reportArgumentType]


def test_three_hundred_nodes_are_drawn_and_a_hundred_thousand_are_refused():
    nodes = "".join(f"  n{n}[Node {n}] --> n{n + 1}\n" for n in range(300))
    assert "Node 299" in words(render_mermaid(f"flowchart LR\n{nodes}", "svg"))
    with pytest.raises(MediaError, match="characters; the maximum is 50,000"):
        render_mermaid("flowchart LR\n" + "".join(f"n{n}-->n{n + 1}\n" for n in range(100_000)), "svg")


def test_a_large_diagram_has_fewer_pixels_and_a_larger_one_is_refused(monkeypatch):
    usual = picture(render_mermaid(FLOW, "png"))
    monkeypatch.setattr(mermaid, "MAX_MERMAID_PIXELS", usual.width * usual.height - 1)
    assert picture(render_mermaid(FLOW, "png")).size == (usual.width // 2, usual.height // 2)
    monkeypatch.setattr(mermaid, "MAX_MERMAID_PIXELS", 100)
    with pytest.raises(MediaError, match=r"pixels are more than the maximum of 100; make an svg"):
        render_mermaid(FLOW, "png")


@pytest.mark.parametrize(
    "code",
    [
        'flowchart LR\n  a["<script>x()</script>"] --> b["<img src=x onerror=y()>"]\n',
        'flowchart LR\n  a --> b\n  click a "javascript:x()"\n  click b href "javascript:y()" "tip"\n',
        'flowchart LR\n  a@{ img: "file:///etc/passwd", label: "pic" }\n  a --> b\n',
        "%%{init: {'securityLevel': 'loose', 'themeCSS': '</style><script>x()</script>'}}%%\nflowchart LR\n  a --> b\n",
    ],
)
def test_foreign_code_has_no_power(code):
    drawn = render_mermaid(code, "svg")
    for hostile in (b"<script", b"onerror=", b"javascript:", b"<image", b"passwd", b"foreignObject"):
        assert hostile not in drawn


@pytest.mark.parametrize("letter", ["\x01", "\0", "\ud800", "\ufffe"])
def test_letters_that_xml_has_not_are_no_crash(letter):
    drawn = b""
    with suppress(MediaError):
        drawn = render_mermaid(f"flowchart LR\n  a[x{letter}y] --> b\n", "svg")
    assert letter.encode(errors="surrogatepass") not in drawn


def test_it_works_in_threads():
    with ThreadPoolExecutor(4) as pool:
        drawn = list(pool.map(lambda n: words(render_mermaid(f"flowchart LR\n a --> n{n}", "svg")), range(8)))
    assert [f"n{n}" in text for n, text in enumerate(drawn)] == [True] * 8


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(errors, "find_spec", lambda package: None)
    with pytest.raises(MissingExtraError, match=re.escape(f"mermaid_render: {pip_install('mermaid')}")):
        render_mermaid(FLOW, "svg")
