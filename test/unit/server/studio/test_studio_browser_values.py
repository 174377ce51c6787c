"""The studio in a real browser: values of a run as pictures, sound and tables, and files that are dropped on an input."""

import base64
import io
import json
import struct
import wave
import zlib

import pytest
from studio_page import AXE

from operad.operators.media.echarts import echarts_option

pytestmark = pytest.mark.slow  # a browser each; test_studio_browser.py looks at the page in `make test`

SHOWS = """\
workflow: shows
nodes:
  1:
    type: start
    after: []
    variables: [[picture, file], [drawing, file], [sound, file], [table, file], [rows, "array[object]"], [facts, object], [said, string]]
  2: {type: template-transform, after: 1, template: "{{ said }}", variables: [[said, [said, "1"]]]}
  3:
    type: end
    after: 2
    outputs:
      - [picture, [picture, "1"]]
      - [drawing, [drawing, "1"]]
      - [sound, [sound, "1"]]
      - [table, [table, "1"]]
      - [rows, [rows, "1"]]
      - [facts, [facts, "1"]]
      - [said, [output, "2"]]
"""

TEXTS = """\
workflow: texts
nodes:
  1: {type: start, after: [], variables: [[said, string]]}
  2: {type: end, after: 1, outputs: [[shown, [said, "1"]]]}
"""

FILES = """\
workflow: files
nodes:
  1: {type: start, after: [], variables: [[papers, "array[file]"], [one, file]]}
  2: {type: end, after: 1, outputs: [[papers, [papers, "1"]]]}
"""

SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><script>document.title=1</script><rect width="8" height="8"/></svg>'


def png(width=3, height=2):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    pixels = zlib.compress(b"".join(b"\x00" + b"\xff\x00\x00" * width for _ in range(height)))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def wav():
    written = io.BytesIO()
    with wave.open(written, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(b"\x00\x10" * 4000)
    return written.getvalue()


@pytest.fixture
def page(opened):
    """Opens a new file with a text, and the form of its run."""

    def page(text, **options):
        page = opened(text, **options)
        page.press("Control+Enter")
        return page

    return page


def field(page, name):
    return page.tab.locator(".run form").get_by_label(name)


def submit(page):
    page.tab.get_by_role("form", name="Run").get_by_role("button", name="Run", exact=True).click()
    page.tab.locator(".result .run-mark.is-done").wait_for()


def drop(page, name, *files):
    """Drop files from the desktop on an input."""
    dropped = page.tab.evaluate_handle(
        """(files) => {
          const dropped = new DataTransfer();
          for (const [name, size, text] of files) dropped.items.add(new File([text ?? new Uint8Array(size)], name));
          return dropped;
        }""",
        [[name, size, text] for name, size, text in files],
    )
    page.tab.locator(".param", has_text=name).locator(".drop").dispatch_event("drop", {"dataTransfer": dropped})


def test_results_are_shown_as_pictures_sound_and_tables(page):
    page = page(SHOWS)
    for name, content in [("picture", png()), ("drawing", SVG), ("sound", wav())]:
        suffix = {"picture": "png", "drawing": "svg", "sound": "wav"}[name]
        field(page, name).set_input_files({"name": f"{name}.{suffix}", "mimeType": "", "buffer": content})
    field(page, "table").set_input_files(
        {"name": "t.csv", "mimeType": "", "buffer": b'city,people\n"Bonn, am Rhein",340\nUlm,129\n'}
    )
    field(page, "rows").fill(
        json.dumps([{"day": "Monday", "visits": 3, "by": ["Ada", "Bo"]}, {"day": "Tuesday", "visits": 14}])
    )
    field(page, "facts").fill(json.dumps({"total": 17, "best": {"day": "Tuesday"}}))
    sound = base64.b64encode(wav()).decode()
    field(page, "said").fill(f"data:text/html;base64,{sound}")  # whatever it says, it is a sound
    submit(page)
    values = page.tab.locator(".result .values").first
    image = values.get_by_role("img", name="picture.png")
    page.until(lambda: image.evaluate("each => each.complete && [each.naturalWidth, each.naturalHeight]") == [3, 2])
    drawn = values.get_by_role("img", name="drawing.svg")
    page.until(lambda: drawn.evaluate("each => each.complete && each.naturalWidth") == 8)
    for name in ("sound.wav", "audio.wav"):
        player = values.get_by_label(name, exact=True)
        page.until(lambda player=player: player.evaluate("each => each.duration") == 0.5)
    cells = [
        [row.locator("th, td").all_inner_texts() for row in table.locator("tr").all()]
        for table in values.locator("table").all()
    ]
    assert cells == [
        [["city", "people"], ["Bonn, am Rhein", "340"], ["Ulm", "129"]],
        [["day", "visits", "by"], ["Monday", "3", "Ada\nBo"], ["Tuesday", "14", ""]],
    ]
    shown = values.inner_text()
    assert "total\n17\nbest\nday\nTuesday" in shown
    assert [sign for sign in ("{", "[", sound[:40]) if sign in shown] == []
    alone = page.tab.context.browser.new_page()
    alone.goto(page.url + drawn.get_attribute("src"))
    assert (alone.title(), alone.locator("rect").count()) == ("", 1)  # its script did not run
    alone.close()


def test_pictures_in_texts_and_tables_as_json_are_shown_as_such(page):
    page = page(TEXTS)
    encoded = base64.b64encode(png()).decode()
    field(page, "said").fill(
        f"# Red\n\n![dot](data:image/png;base64,{encoded}) ![no](data:image/png;base64,AAAAAAAAAAAAAAAAAAAA)"
    )
    submit(page)
    image = page.tab.locator(".result .markdown").first.get_by_role("img", name="dot")
    page.until(lambda: image.evaluate("each => each.complete && each.naturalWidth") == 3)
    assert page.tab.locator(".result .markdown").first.locator("img").count() == 1
    assert encoded not in page.tab.locator(".result").inner_text()
    field(page, "said").fill(echarts_option("bar", "Visits <b>", "3;14", "Mo;<i>Tu"))
    submit(page)
    chart = page.tab.locator(".result table.chart").first
    chart.wait_for()
    assert chart.inner_text().split() == ["Visits", "<b>", "Mo", "3", "<i>Tu", "14"]
    bars = chart.locator("progress").evaluate_all("all => all.map((each) => [each.value, each.max])")
    assert bars == [[3, 14], [14, 14]]
    field(page, "said").fill('[{"city": "Bonn", "people": 340}]')
    submit(page)
    cells = page.tab.locator(".result table:not(.chart)").first.locator("td")
    page.until(lambda: cells.all_inner_texts() == ["Bonn", "340"])
    page.tab.locator(".result").get_by_role("button", name="As text").first.click()
    assert '[{"city": "Bonn", "people": 340}]' in page.tab.locator(".result").inner_text()


def test_axe_finds_no_serious_fault_in_values(page):
    if not AXE.exists():
        pytest.skip("axe-core is missing: cd server/studio/web && npm ci")
    page = page(SHOWS, bypass_csp=True)
    for name, suffix, content in [
        ("picture", "png", png()),
        ("drawing", "svg", SVG),
        ("sound", "wav", wav()),
        ("table", "csv", b"a,b\n1,2"),
    ]:
        field(page, name).set_input_files({"name": f"{name}.{suffix}", "mimeType": "", "buffer": content})
    field(page, "rows").fill(json.dumps([{"day": day, "visits": day} for day in range(60)]))
    field(page, "facts").fill(json.dumps({"total": 17, "best": {"day": [["a", 1], ["b", 2]]}}))
    field(page, "said").fill("- one\n- two")
    submit(page)
    page.tab.get_by_role("button", name="Show all 60 rows").first.click()
    page.until(lambda: page.tab.locator(".result table").nth(1).locator("tbody tr").count() == 60)
    assert page.faults() == []


def test_files_are_dropped_on_an_input_that_says_how_large_they_can_be(page):
    page = page(FILES)
    assert "or drop files here: up to 16 MB each, 32 MB together" in page.tab.locator(".run form").inner_text()
    drop(page, "papers", ("a.txt", 0, "first"), ("b.txt", 0, "second"))
    drop(page, "papers", ("c.bin", 16 * 2**20 + 1, None))
    fault = page.tab.locator(".run form").get_by_role("alert")
    assert fault.inner_text() == "c.bin is larger than 16 MB."
    drop(page, "one", ("d.txt", 0, "1"), ("e.txt", 0, "2"))
    page.tab.get_by_text("This input takes one file.").wait_for()
    drop(page, "one", ("d.txt", 0, "1"))
    page.tab.get_by_role("button", name="Remove d.txt").wait_for()
    drop(page, "papers", ("f.md", 0, "# third"))
    page.tab.get_by_role("button", name="Remove f.md").wait_for()
    assert page.tab.get_by_role("alert").count() == 0
    submit(page)
    files = page.tab.locator(".result .file")
    assert [each.split("\n")[0] for each in files.locator("a").all_inner_texts()] == ["a.txt", "b.txt", "f.md"]
    page.until(lambda: files.nth(2).locator(".markdown .h1").count() == 1)
    assert files.nth(0).locator("pre").inner_text() == "first"
    stays = page.tab.evaluate(
        """() => {
          const dataTransfer = new DataTransfer();
          dataTransfer.items.add(new File(["x"], "x.txt"));
          const drop = new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true });
          return !document.querySelector(".top").dispatchEvent(drop);
        }"""
    )
    assert stays  # a file that misses its field does not take the place of the page
