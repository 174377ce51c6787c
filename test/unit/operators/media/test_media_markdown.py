import asyncio
import http.server
import io
import re
import sys
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from types import SimpleNamespace

import pytest
from openpyxl import load_workbook

from operad.operators.media import child, errors, markdown
from operad.operators.media.documents import read_document
from operad.operators.media.errors import MediaError
from operad.operators.media.fences import unfenced
from operad.operators.media.markdown import export_markdown
from operad.runtime import FileDescriptor, MissingExtraError
from operad.runtime.barrier import missing
from operad.runtime.values.pip import pip_install

REPORT = """# Report

Sales **rose** by 5%, see [Prices](#prices) and [nothing](#nowhere).

## Prices

| fruit | price |
|---|---|
| figs | 2 |

```python
print("hi")
```

## Tasks

- [ ] pick
- [x] dry
"""


@pytest.fixture
def read(tmp_path):
    """The text of an exported file."""

    def of(made, target):
        file = tmp_path / f"made.{target}"
        file.write_bytes(made)
        return read_document(FileDescriptor.of(file))

    return of


@pytest.fixture
def cjk_font(tmp_path, monkeypatch):
    """The package with the font, and a font in it that has the letters 中文报告 alone."""
    build = import_module("fontTools.fontBuilder").FontBuilder(1000, isTTF=True)
    pen = import_module("fontTools.pens.ttGlyphPen").TTGlyphPen(None)
    pen.moveTo((100, 0))
    pen.lineTo((100, 800))
    pen.lineTo((900, 800))
    pen.lineTo((900, 0))
    pen.closePath()
    names = {ord(letter): f"uni{ord(letter):04X}" for letter in "中文报告"}
    build.setupGlyphOrder([".notdef", *names.values()])
    build.setupCharacterMap(names)
    box = pen.glyph()
    build.setupGlyf(dict.fromkeys([".notdef", *names.values()], box))
    build.setupHorizontalMetrics(dict.fromkeys([".notdef", *names.values()], (1000, 100)))
    build.setupHorizontalHeader(ascent=880, descent=-120)
    build.setupNameTable({"familyName": "Tiny CJK SC", "styleName": "Regular", "psName": "TinyCjkSc"})
    build.setupOS2(sTypoAscender=880, sTypoDescender=-120, usWinAscent=880, usWinDescent=120)
    build.setupPost()
    package = tmp_path / "site" / "noto_cjk_sans_otc"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    build.save(package / "tiny.ttf")
    monkeypatch.syspath_prepend(package.parent)


@pytest.fixture
def no_fonts(monkeypatch):
    monkeypatch.setattr(import_module("typst"), "Fonts", lambda font_paths: SimpleNamespace(fonts=list))


def picture(png):
    return import_module("PIL.Image").open(io.BytesIO(png)).convert("L")


# What is made


@pytest.mark.parametrize("target", ["docx", "pptx", "pdf", "html"])
async def test_what_was_written_is_in_the_file(read, target):
    text = read(await export_markdown(REPORT, target), target)
    for words in ("Report", "rose", "Prices", "nothing", "figs", 'print("hi")', "pick"):
        assert words in text


async def test_markdown_is_given_as_it_is():
    assert await export_markdown("# 标题\n", "md") == "# 标题\n".encode()


async def test_a_heading_of_the_second_level_begins_a_slide():
    made = await export_markdown("## One\n\na\n\n## Two\n\nb\n", "pptx")
    slides = import_module("pptx").Presentation(io.BytesIO(made)).slides
    assert [slide.shapes.title.text for slide in slides] == ["One", "Two"]


async def test_a_page_of_html_has_the_first_heading_for_its_title():
    assert b"<title>Report</title>" in await export_markdown(REPORT, "html")
    assert b"<title>Document</title>" in await export_markdown("figs", "html")


@pytest.mark.slow
async def test_a_picture_is_as_high_as_the_text_needs_and_not_blank():
    low, high = picture(await export_markdown("figs", "png")), picture(await export_markdown("figs\n\n" * 200, "png"))
    assert low.width == high.width == 1191
    assert low.height < 400 < 5000 < high.height
    assert low.getextrema()[0] < 100


async def test_a_picture_that_would_be_too_high_is_an_error_that_says_what_to_do():
    with pytest.raises(MediaError, match="markdown to png: the picture would be too high; export it as pdf"):
        await export_markdown("figs\n\n" * 3000, "png")


async def test_the_same_text_gives_the_same_pdf():
    assert await export_markdown(REPORT, "pdf") == await export_markdown(REPORT, "pdf")


async def test_formulas_are_set(read):
    text = "$$\\frac{a}{b}$$\n\nand $x_1$"
    assert "<mfrac>" in (await export_markdown(text, "html")).decode()
    assert "𝑎" in read(await export_markdown(text, "pdf"), "pdf")


async def test_formulas_that_are_none_are_shown_as_they_are(read):
    assert "\\foo" in read(await export_markdown("a $\\foo{x}$ b, from $5 to $10", "pdf"), "pdf")


def test_it_works_in_threads():
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda n: asyncio.run(export_markdown(f"figs {n}", "docx")), range(4)))
    assert [zipfile.is_zipfile(io.BytesIO(one)) for one in made] == [True] * 4


# Fences


@pytest.mark.parametrize(
    "text",
    [
        "```markdown\n# T\n\nfigs\n```",
        "\n```md\n# T\n\nfigs\n```  \n",
        "~~~~Markdown\n# T\n\nfigs\n~~~~",
    ],
)
async def test_a_fence_around_the_whole_text_is_taken_off(text):
    assert await export_markdown(text, "md") == b"# T\n\nfigs"


@pytest.mark.parametrize("inner", ["```python\nx\n```", "```\nx\n```\n\n```sh\ny\n```"])
def test_fences_inside_stay(inner):
    assert unfenced(f"```markdown\nfigs\n{inner}\n```", {"markdown"}) == f"figs\n{inner}"


@pytest.mark.parametrize(
    "text",
    [
        "```python\nx\n```",
        "```markdown\nx",
        "```markdown",
        "",
        "before\n```markdown\nx\n```",
        "```markdown\nx\n```\nbetween\n```python\ny\n```",
    ],
)
def test_other_fences_stay(text):
    assert unfenced(text, {"markdown"}) == text


# What is foreign has no power


@pytest.fixture
def server():
    """The address of a server, and what it was asked for."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, format, *args):
            pass

    serving = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{serving.server_port}", asked
    serving.shutdown()
    thread.join()
    serving.server_close()


@pytest.mark.slow
@pytest.mark.parametrize("target", ["docx", "pptx", "pdf", "png", "html"])
async def test_nothing_is_read_or_fetched_for_it(tmp_path, server, target):
    address, asked = server
    dot = tmp_path / "secret.png"
    dot.write_bytes(b"SECRET-BYTES")
    text = (
        f"![pic]({address}/a.png) ![file]({dot}) ![file](file://{dot})\n\n<img src='{address}/b.png'>\n\n"
        f"<div><img src='{dot}'><iframe src='{address}/c'></iframe><iframe src='{dot}'></iframe></div>\n\n"
        f"<link rel=stylesheet href='{address}/d.css'><script src='{address}/e.js'></script>\n\n"
        f'\\input{{{dot}}} `#read("{dot}")`{{=typst}}\n\n```{{=typst}}\n#read("{dot}")\n```\n'
    )
    made = await export_markdown(text, target)
    assert asked == []
    assert b"SECRET-BYTES" not in made
    if target in ("docx", "pptx"):
        packed = zipfile.ZipFile(io.BytesIO(made))
        assert not [name for name in packed.namelist() if b"SECRET-BYTES" in packed.read(name)]
        assert not [name for name in packed.namelist() if "media/" in name and "." in name]


async def test_html_has_no_scripts_in_it():
    text = (
        "---\nheader-includes: <script>a()</script>\ntitle: <script>b()</script>\n---\n\n"
        "<script>c()</script>\n\nx <script>d()</script> <b onclick='e()'>bold</b>\n\n<p onclick='f()' style='g'>para</p>\n\n"
        "[one](javascript:h()) [two](JAVASCRIPT:i()) [three](data:text/html,j) [four](https://example.org)\n\n"
        "<table><tr><td onclick='k()'>cell</td></tr></table>\n\n<svg onload='l()'></svg>"
    )
    page = (await export_markdown(text, "html")).decode()
    body = page[page.index("<body>") :]
    for hostile in ("<script", "onclick", "onload", "javascript:", "JAVASCRIPT:", "data:", "style="):
        assert hostile not in body
    for kept in ("one", "para", "cell", "bold", '<a href="https://example.org">four</a>'):
        assert kept in body


async def test_a_line_break_of_html_is_one(read):
    text = "one fig<br>two figs"
    assert "one fig<br />" in (await export_markdown(text, "html")).decode()
    assert read(await export_markdown(text, "pdf"), "pdf") == "one fig\ntwo figs"


# Letters


@pytest.mark.parametrize("target", ["docx", "pptx", "html"])
async def test_chinese_needs_no_font_in_files_that_have_none(read, no_fonts, target):
    assert "中文报告\ud7fc".encode(errors="replace").decode()[:4] in read(
        await export_markdown("# 中文报告", target), target
    )


async def test_chinese_is_in_a_pdf(read, cjk_font):
    text = read(await export_markdown("# 中文\n\n报告 figs `中`", "pdf"), "pdf")
    assert text.split() == ["中文", "报告", "figs", "中"]


async def test_chinese_is_in_a_picture(cjk_font):
    blank, drawn = picture(await export_markdown("&nbsp;", "png")), picture(await export_markdown("中文", "png"))
    assert blank.getextrema() == (255, 255)
    assert drawn.getextrema()[0] < 100


@pytest.mark.parametrize("target", ["pdf", "png"])
async def test_letters_that_no_font_has_are_an_error_that_says_what_to_install(no_fonts, target):
    with pytest.raises(MediaError, match=f"markdown to {target}: no installed font has the letters 。中文;") as raised:
        await export_markdown("figs 中文。", target)
    for way in ("pip install noto-cjk-sans-otc", "apt install fonts-noto-cjk", "fonts-wqy-microhei"):
        assert way in str(raised.value)
    assert await export_markdown("figs “déjà” Ω", target)


async def test_some_letters_that_no_font_has_are_an_error(cjk_font, monkeypatch):
    typst = import_module("typst")
    every = typst.Fonts
    monkeypatch.setattr(typst, "Fonts", lambda font_paths: every(include_system_fonts=False, font_paths=font_paths))
    with pytest.raises(MediaError, match="no installed font has the letters 猫;"):
        await export_markdown("中文 猫", "pdf")


async def test_half_a_letter_is_no_crash():
    assert b"a?b" in await export_markdown("a\ud800b", "html")


# What cannot be made


@pytest.mark.parametrize("text", ["", " \n\t", "```markdown\n\n```"])
@pytest.mark.parametrize("target", ["docx", "md", "pdf"])
async def test_an_empty_text_is_an_error(text, target):
    with pytest.raises(MediaError, match=f"markdown to {target}: the text is empty"):
        await export_markdown(text, target)


async def test_an_unknown_target_is_an_error_that_names_the_known_ones():
    with pytest.raises(
        MediaError, match=r"there is no target 'doc' \(did you mean 'docx'\?\); there are docx, pptx, pdf"
    ):
        await export_markdown("figs", "doc")  # pyright: ignore[reportArgumentType]


async def test_a_text_that_is_too_long_is_an_error():
    with pytest.raises(MediaError, match="the text has 1,000,001 characters; the maximum is 1,000,000"):
        await export_markdown("x" * 1_000_001, "md")


async def test_what_cannot_be_typeset_is_an_error_that_says_why():
    with pytest.raises(MediaError, match="markdown to pdf: maximum parsing depth exceeded"):
        await export_markdown(">" * 500 + "x", "pdf")


@pytest.mark.parametrize(("target", "package"), [("docx", "pypandoc"), ("pdf", "typst")])
async def test_without_the_extra_it_says_what_to_install(monkeypatch, target, package):
    find_spec = errors.find_spec
    monkeypatch.setattr(errors, "find_spec", lambda name: None if name == package else find_spec(name))
    with pytest.raises(MissingExtraError, match=re.escape(f"{package}: {pip_install('media')}")):
        await export_markdown("figs", target)


# Processes

SLEEP = [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); open('here', 'w'); time.sleep(600)"]


@pytest.fixture
def started(monkeypatch):
    """The processes that were started."""
    processes = []
    create = asyncio.create_subprocess_exec

    async def noted(*command, **options):
        processes.append(await create(*command, **options))
        return processes[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    return processes


async def test_a_program_that_takes_too_long_is_stopped(started):
    with pytest.raises(MediaError, match=r"sleep: took more than 0\.2 s and was stopped"):
        await child.run("sleep", SLEEP, b"", seconds=0.2)
    assert started[0].returncode is not None


async def test_a_program_is_stopped_when_the_call_is_cancelled(started):
    call = asyncio.ensure_future(child.run("sleep", SLEEP, b"", seconds=60))
    while not started:
        await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert started[0].returncode is not None


async def test_an_export_that_takes_too_long_is_stopped(monkeypatch, started):
    monkeypatch.setattr(markdown, "_SECONDS", 0.001)
    with pytest.raises(MediaError, match="markdown to docx: took more than"):
        await export_markdown(REPORT, "docx")
    assert started[0].returncode is not None


async def test_a_program_that_fails_says_why():
    with pytest.raises(MediaError, match=r"^it: no way$"):
        await child.run("it", [sys.executable, "-c", "import sys; sys.exit('no way')"], b"", seconds=60)
    with pytest.raises(MediaError, match=r"^it: its program ended with code 3$"):
        await child.run("it", [sys.executable, "-c", "import sys; sys.exit(3)"], b"x" * 10**6, seconds=60)


# Workbooks


TABLES = """# Sales

| region | sales | code |
|---|---:|---|
| North<br>West | 10 | 007 |
| **South** | 2.5 | =1+1 |

| a |
|---|
| 1 |

## Costs: 2/3

| item |
|---|
| `tea` |
"""


async def test_each_table_becomes_a_sheet_named_after_its_heading_without_formulas():
    book = load_workbook(io.BytesIO(await export_markdown(TABLES, "xlsx")))
    assert book.sheetnames == ["Sales", "Sales1", "Costs  2 3"]
    assert [[cell.value for cell in row] for row in book["Sales"].rows] == [
        ["region", "sales", "code"],
        ["North\nWest", 10, "007"],
        ["South", 2.5, "=1+1"],
    ]
    assert [[cell.value for cell in row] for row in book["Costs  2 3"].rows] == [["item"], ["tea"]]
    assert {cell.data_type for sheet in book for row in sheet.rows for cell in row} == {"s", "n"}


async def test_a_workbook_of_a_text_without_a_table_is_an_error():
    with pytest.raises(MediaError, match="markdown to xlsx: the text has no table; write one as"):
        await export_markdown("Only words.", "xlsx")


@pytest.mark.skipif(bool(missing()), reason=f"no barrier here: it lacks {'; '.join(missing())}")
async def test_a_program_reads_its_folder_and_python_alone(tmp_path):
    (tmp_path / "secret").write_text("secret")
    for rest, error in (
        ("", ""),
        (f"\nopen({str(tmp_path / 'secret')!r})", "Permission denied"),
        ("\nos.fork()", "permitted"),
    ):
        program = tmp_path / "program.py"
        program.write_text(
            f"import os\nopen('a', 'w').write('kept')\nprint(open('a').read(), open(os.__file__).read(3)){rest}"
        )
        call = child.run("it", [*child.python("typeset.py")[:-1], program], b"", seconds=60)
        if error:
            with pytest.raises(MediaError, match=error):
                await call
        else:
            assert (await call).split() == [b"kept", b'r"""OS'[:3]]
