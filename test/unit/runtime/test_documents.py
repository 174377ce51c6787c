import datetime
import io
import logging
import os
import re
import sqlite3
import subprocess
import sys
import threading
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

from operad.runtime import Documents, FileDescriptor, InputError, MissingExtraError
from operad.runtime.knowledge import documents, extract, folders, readers
from operad.runtime.knowledge.passage_index import IndexedFile, IndexedPassage, PassageIndex
from operad.runtime.values.pip import pip_install

ENGLISH = "# Guide\n\nWelcome to the orchard.\n\n## Picking figs\n\nFigs are ripe when they droop.\n"
CHINESE = "# 手册\n\n## 安装\n\n先下载安装包，再运行安装程序。\n\n## 退款\n\n退款在七天之内到账。\n"


def docx(*paragraphs):
    """Paragraphs; a style before a colon."""
    body = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>'
        for style, text in paragraphs
    )
    w = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    r = "http://schemas.openxmlformats.org/package/2006"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="Heading{n}"><w:name w:val="heading {n}"/></w:style>' for n in (1, 2)
    )
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{r}/content-types"><Default Extension="rels" ContentType="application/'
        'vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{r}/relationships"><Relationship Id="r1" Type="{office}" '
        'Target="word/document.xml"/></Relationships>',
        "word/_rels/document.xml.rels": f'<Relationships xmlns="{r}/relationships"><Relationship Id="s1" '
        f'Type="{office.replace("officeDocument/2006/relationships/officeDocument", "officeDocument/2006/relationships/styles")}" '
        'Target="styles.xml"/></Relationships>',
        "word/styles.xml": f'<w:styles xmlns:w="{w}">{styles}</w:styles>',
        "word/document.xml": f'<w:document xmlns:w="{w}"><w:body>{body}</w:body></w:document>',
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for name, text in parts.items():
            file.writestr(name, text)
    return packed.getvalue()


def pdf(*pages):
    """A PDF with a line of ASCII text on each page."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n, text in enumerate(pages):
        drawn = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET"
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 500 200] /Contents {5 + 2 * n} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>",
            f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        ]
    written, offsets = "%PDF-1.4\n", []
    for number, thing in enumerate(objects, 1):
        offsets.append(len(written))
        written += f"{number} 0 obj\n{thing}\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    return (
        f"{written}xref\n0 {size}\n0000000000 65535 f \n{table}"
        f"trailer << /Size {size} /Root 1 0 R >>\nstartxref\n{len(written)}\n%%EOF\n"
    ).encode()


def xlsx(**sheets):
    openpyxl = import_module("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    packed = io.BytesIO()
    book.save(packed)
    return packed.getvalue()


def pptx(*slides):
    show = import_module("pptx").Presentation()
    for title, text in slides:
        slide = show.slides.add_slide(show.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = text
    packed = io.BytesIO()
    show.save(packed)
    return packed.getvalue()


@pytest.fixture
def folder(tmp_path):
    """A folder in which files are written as ``folder({"a/b.md": "text"})``."""
    docs = tmp_path / "docs"
    docs.mkdir()

    def write(files):
        for name, content in files.items():
            file = docs / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return docs

    return write


@pytest.fixture
def read(monkeypatch):
    """The names of the files that are read, in order."""
    names = []

    def noted(data, name):
        names.append(Path(name).name)
        return extract.extract(data, name)

    monkeypatch.setattr(documents, "extract", noted)
    return names


def sources(base, query):
    return [passage.source for passage in base.retrieve(query).passages]


def texts(base, query):
    return [passage.text for passage in base.retrieve(query).passages]


# What is found


def test_a_passage_comes_with_its_file_line_headings_and_score(folder):
    base = Documents(folder({"guide/setup.md": ENGLISH, "other.txt": "Nothing of the kind."}))
    [passage] = base.retrieve("When is a fig ripe?").passages
    assert passage.text == "Figs are ripe when they droop."
    assert passage.source == "docs/guide/setup.md:7 Guide > Picking figs"
    assert passage.score > 0
    assert dict(base.skipped) == {}


def test_the_best_come_first_and_not_more_than_are_asked_for(folder):
    files = {f"{n}.txt": "figs " + "and nuts " * n for n in range(8)}
    others = {f"other{n}.txt": "nothing of the kind" for n in range(10)}
    base = Documents(folder({**files, **others, "both.txt": "figs and dates"}))
    found = base.retrieve("figs dates").passages
    assert len(found) == 5
    assert found[0].source == "docs/both.txt:1"
    assert [p.score for p in found] == sorted((p.score for p in found), reverse=True)
    assert len(Documents(folder({}), passages=2).retrieve("figs").passages) == 2


def test_english_words_are_found_in_their_other_forms(folder):
    base = Documents(folder({"a.txt": "He installs the printers.", "b.txt": "Something else."}))
    assert sources(base, "installing a printer") == ["docs/a.txt:1"]


@pytest.mark.parametrize(
    ("query", "source"),
    [
        ("请问怎么安装这个程序？", "docs/手册.md:5 手册 > 安装"),
        ("客户想知道退款什么时候到账", "docs/手册.md:9 手册 > 退款"),
        ("データベースの索引", "docs/日本.txt:1"),
    ],
)
def test_chinese_and_japanese_are_found(folder, query, source):
    base = Documents(folder({"手册.md": CHINESE, "日本.txt": "このデータベースには索引がある。"}))
    assert sources(base, query)[0] == source


def test_a_passage_is_found_by_its_heading_and_by_the_name_of_its_file(folder):
    base = Documents(folder({"a.md": "# Orchard\n\nIt is large.", "harvest_plan.txt": "In May.", "c.txt": "No."}))
    assert sources(base, "orchard") == ["docs/a.md:3 Orchard"]
    assert sources(base, "the plan") == ["docs/harvest_plan.txt:1"]


def test_code_is_found_by_the_parts_of_its_names_and_its_comments_are_no_headings(folder):
    base = Documents(folder({"m.py": "# Top\ndef max_age(): ...\n", "n.py": "pass"}))
    assert sources(base, "What is the age?") == ["docs/m.py:1"]


def test_a_word_that_most_passages_hold_finds_them_where_it_is_all_there_is(folder):
    base = Documents(folder({"a.txt": "figs", "b.txt": "figs"}))
    assert sources(base, "figs") == ["docs/a.txt:1", "docs/b.txt:1"]
    assert sources(base, "nuts") == []


def test_a_word_that_most_passages_hold_finds_nothing_beside_a_rarer_one(folder):
    base = Documents(folder({"a.txt": "figs", "b.txt": "figs", "c.txt": "figs and dates"}))
    assert sources(base, "figs or dates") == ["docs/c.txt:1"]


SMALL = {
    "start.md": "How do I start it? It is started with a command, and I do it like this.",
    "cancel.md": "To cancel a run, press Ctrl-C.",
    "abbrechen.md": "Wie starte ich es? Einen Lauf abbrechen: mit Strg-C. Das ist es.",
    "annuler.md": "Que faut-il faire pour commencer ? Annuler une commande : avec Ctrl-C.",
    "cancelar.md": "¿Qué tengo que hacer? Cancelar un pedido: con Ctrl-C.",
    "取消.md": "怎么开始？请问怎么办？按 Ctrl-C 取消运行。",
}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("How do I cancel a run?", ["cancel.md"]),
        ("Hello! Could you please tell me what I should do to cancel it?", ["cancel.md"]),
        ("Wie kann ich das bitte abbrechen?", ["abbrechen.md"]),
        ("Qu'est-ce que je dois faire pour l'annuler ?", ["annuler.md"]),
        ("¿Qué tengo que hacer para cancelarlo? ¿Cómo cancelar?", ["cancelar.md"]),
        ("请问怎么取消？", ["取消.md"]),
        ("Who is the president of France?", []),
        ("Wer ist der Präsident, und wie heißt er?", []),
        ("谁是总统？", []),
    ],
)
def test_of_a_question_the_words_count_that_say_what_it_is_about(folder, query, found):
    assert sources(Documents(folder(SMALL)), query) == [f"docs/{name}:1" for name in found]


def test_stopwords_are_looked_for_where_there_is_nothing_else(folder):
    base = Documents(folder({"hamlet.txt": "To be, or not to be.", "other.txt": "Words, words, words."}))
    assert sources(base, "to be or not to be") == ["docs/hamlet.txt:1"]


def test_names_in_code_are_found_by_their_parts_and_as_they_are(folder):
    base = Documents(
        folder({"a.js": "let maxRetryCount = 3", "b.java": "class HTTPServerConfig {}", "c.txt": "SQLite"})
    )
    assert sources(base, "max retry count") == sources(base, "maxretrycount") == ["docs/a.js:1"]
    assert sources(base, "http server") == sources(base, "HTTPServer") == ["docs/b.java:1"]
    assert sources(base, "sqlite") == ["docs/c.txt:1"]


@pytest.mark.parametrize(
    "query",
    [
        "",
        " \n",
        '"',
        '""" figs " OR',
        "figs AND OR NOT",
        "NEAR(figs nuts, 5)",
        "NEAR(",
        "*",
        "^figs*",
        "words:figs -figs +figs",
        "{figs} (figs",
        "figs'; DROP TABLE passages; --",
        "\0figs\0",
        "\ud800 figs",
        "😀",
        "figs " * 20_000,
        "".join(chr(n) for n in range(0x4E00, 0x9FFF)),
        " ".join(f"word{n}" for n in range(20_000)) + " figs",
    ],
)
def test_any_query_is_an_answer_and_never_an_error(folder, query):
    base = Documents(folder({"a.txt": "Some figs."}))
    shown = "figs" in query[:20_000]
    assert sources(base, query) == (["docs/a.txt:1"] if shown else [])
    assert texts(base, "figs") == ["Some figs."]


def test_of_a_long_query_the_rarest_words_count(folder):
    common = [f"common{n}" for n in range(100)]
    files = {f"{n}.txt": " ".join(common) for n in range(20)}
    base = Documents(folder({**files, "rare.txt": "quince"}), passages=1)
    assert sources(base, " ".join([*common, "quince"])) == ["docs/rare.txt:1"]


def test_several_paths_have_names_that_tell_them_apart(tmp_path):
    for name in ("a/docs/x.txt", "b/docs/x.txt", "c/y.txt"):
        file = tmp_path / name
        file.parent.mkdir(parents=True)
        file.write_text("figs")
    base = Documents([tmp_path / "a/docs", tmp_path / "b/docs", tmp_path / "c/y.txt", tmp_path / "c"])
    assert sorted(sources(base, "figs")) == ["a/docs/x.txt:1", "b/docs/x.txt:1", "c/y.txt:1"]
    base = Documents([str(tmp_path / "c"), tmp_path / "a/docs"])
    assert sorted(sources(base, "figs")) == ["c/y.txt:1", "docs/x.txt:1"]
    assert sources(Documents(tmp_path / "c/y.txt"), "figs") == ["y.txt:1"]


def test_a_source_is_one_short_line(folder):
    base = Documents(folder({"a\nb.md": f"# H\x0b {'long ' * 30}\n## {'long ' * 30}\n### {'long ' * 30}\n\nfigs"}))
    [source] = sources(base, "figs")
    assert source.startswith("docs/a b.md:5 H long")
    assert len(source) <= documents.SOURCE_CHARS
    assert source.splitlines() == [source]


# Documents


def test_a_word_document_is_found_under_its_headings(folder):
    import_module("mammoth")
    data = docx(("Heading1", "Terms"), ("Normal", "Welcome."), ("Heading2", "退款"), ("Normal", "退款在七天之内到账。"))
    base = Documents(folder({"terms.docx": data}))
    assert sources(base, "退款到账") == ["docs/terms.docx Terms > 退款"]
    assert texts(base, "退款到账") == ["退款在七天之内到账。"]


def test_a_spreadsheet_is_found_by_sheet_and_row_and_its_values_are_what_they_were(folder):
    day = datetime.datetime(2026, 5, 17)
    rows = [["fruit", "price | net", "since"], ["figs", 2.0, day], [], ["a|b", None, True], ["two\nlines", 2.5, None]]
    many = [["name", "n"], *([f"thing{n}", n] for n in range(300))]
    base = Documents(folder({"p.xlsx": xlsx(Prices=rows, Many=many, Empty=[])}))
    [passage] = base.retrieve("figs").passages
    assert passage.source == "docs/p.xlsx row 1 Prices"
    assert passage.text == (
        "| fruit | price \\| net | since |\n|---|---|---|\n| figs | 2 | 2026-05-17 |\n| a\\|b |  | True |\n| two lines | 2.5 |"
    )
    [passage] = base.retrieve("thing250").passages
    lines = passage.text.splitlines()
    assert lines[:2] == ["| name | n |", "|---|---|"]
    row = int(passage.source.removeprefix("docs/p.xlsx row ").removesuffix(" Many"))
    assert lines[2 + 252 - row] == "| thing250 | 250 |"


@pytest.mark.parametrize(
    ("name", "delimiter"), [("p.csv", ","), ("p.csv", ";"), ("p.csv", "\t"), ("p.csv", "|"), ("p.tsv", "\t")]
)
def test_each_piece_of_a_table_of_text_has_its_head_and_stands_at_its_line(folder, name, delimiter):
    rows = ["fruit,price,note", 'figs,2,"two', 'lines"', "", *(f"thing{n},{n},x" for n in range(300))]
    base = Documents(folder({name: "\r\n".join(rows).replace(",", delimiter)}))
    [passage] = base.retrieve("figs").passages
    assert passage.source == f"docs/{name}:2"
    assert passage.text.startswith(
        "| fruit | price | note |\n|---|---|---|\n| figs | 2 | two lines |\n| thing0 | 0 | x |"
    )
    [passage] = base.retrieve("thing250").passages
    head, rule, *found = passage.text.splitlines()
    assert (head, rule) == ("| fruit | price | note |", "|---|---|---|")
    line = int(passage.source.removeprefix(f"docs/{name}:"))
    assert found[5 + 250 - line] == "| thing250 | 250 | x |"


@pytest.mark.parametrize(
    "text", ['fruit,price\nfigs,"2', 'fruit,price\n"figs"s,2', f"fruit,price\nfigs,{'2' * 200_000}"]
)
def test_a_broken_table_of_text_is_text(folder, text):
    base = Documents(folder({"p.csv": text}), passages=1)
    [passage] = base.retrieve("figs").passages
    assert not passage.text.startswith("|")
    assert base.skipped == {}


def altered(packed, old, new):
    """A packed document with something else in its parts."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(packed)) as before, zipfile.ZipFile(out, "w") as after:
        for name in before.namelist():
            after.writestr(name, before.read(name).replace(old, new))
    return out.getvalue()


def test_a_spreadsheet_that_lies_about_its_size_and_writes_whole_numbers_as_others_do_is_read_whole(folder):
    data = altered(xlsx(S=[["figs", 7], ["nuts", 8]]), b"<v>7</v>", b"<v>7.0</v>")
    data = altered(data, b'<dimension ref="A1:B2"', b'<dimension ref="A1:A1"')
    assert texts(Documents(folder({"p.xlsx": data})), "figs") == ["| figs | 7 |\n|---|---|\n| nuts | 8 |"]


def test_slides_are_found_by_their_number(folder):
    import_module("markitdown")
    base = Documents(folder({"t.pptx": pptx(("Opening", "Hello"), ("Prices", "Figs cost two."), ("Farewell", ""))}))
    assert sources(base, "what do figs cost") == ["docs/t.pptx slide 2 Prices"]
    assert (sources(base, "farewell"), texts(base, "farewell")) == (["docs/t.pptx slide 3"], ["Farewell"])


def test_pages_of_a_pdf_are_found_by_their_number(folder):
    import_module("pypdfium2")
    base = Documents(folder({"h.pdf": pdf("Welcome.", "Figs are ripe in autumn.")}))
    assert sources(base, "ripe figs") == ["docs/h.pdf p.2"]
    assert texts(base, "ripe figs") == ["Figs are ripe in autumn."]


def test_a_web_page_is_its_text(folder):
    import_module("markitdown")
    page = "<html><head><title>T</title><script>figs()</script></head><body><h1>果园</h1><p>Ripe <b>figs</b></p></body>"
    base = Documents(folder({"w.html": page}))
    assert sources(base, "figs") == ["docs/w.html 果园"]
    assert texts(base, "figs") == ["Ripe **figs**"]


@pytest.mark.parametrize("suffix", [".docx", ".xlsx", ".pptx", ".pdf"])
@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04garbage", b"%PDF-1.7 garbage"])
def test_a_broken_document_is_left_out_and_the_rest_is_read(folder, suffix, content, caplog):
    for package in ("markitdown", "mammoth", "openpyxl", "pptx", "pypdfium2"):
        import_module(package)
    docs = folder({f"broken{suffix}": content, "a.txt": "figs"})
    base = Documents(docs)
    assert sources(base, "figs hello garbage") == ["docs/a.txt:1"]
    [(path, reason)] = base.skipped.items()
    assert path == str(docs / f"broken{suffix}")
    assert f"cannot be read as a {suffix} file" in reason
    sources(base, "figs")
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert path in caplog.text


def test_a_document_that_unpacks_to_too_much_is_left_out(folder):
    import_module("mammoth")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("word/document.xml", bytes(readers.MAX_UNPACKED_BYTES + 1))
    base = Documents(folder({"bomb.docx": packed.getvalue(), "a.txt": "figs"}))
    assert sources(base, "figs") == ["docs/a.txt:1"]
    [reason] = base.skipped.values()
    assert reason == "unpacks to 134,217,729 bytes, more than the maximum of 134,217,728"


def test_a_pdf_without_text_says_so(folder):
    import_module("pypdfium2")
    base = Documents(folder({"scan.pdf": pdf("", ""), "a.txt": "figs"}))
    sources(base, "figs")
    assert "OCR" in next(iter(base.skipped.values()))


def test_pdfs_are_read_in_many_threads(folder):
    import_module("pypdfium2")
    bases = [Documents(folder({"h.pdf": pdf(*["Figs are ripe."] * 30)})) for _ in range(6)]
    found = in_threads([lambda base=base: texts(base, "ripe") for base in bases])
    assert found == [["Figs are ripe."] * 5] * 6


@pytest.mark.parametrize(
    ("name", "packages"),
    [
        ("a.docx", "markitdown and mammoth"),
        ("a.pdf", "pypdfium2"),
        ("a.PPTX", "markitdown and pptx"),
        ("a.xlsx", "openpyxl"),
        ("a.html", "markitdown"),
    ],
)
def test_without_the_extra_files_that_need_it_are_an_error_that_says_what_to_install(
    folder, monkeypatch, name, packages
):
    base = Documents(folder({"a.txt": "figs"}))
    monkeypatch.setattr(extract, "find_spec", lambda package: None)
    assert sources(base, "figs") == ["docs/a.txt:1"]
    folder({name: b"any"})
    with pytest.raises(MissingExtraError, match=re.escape(f"{packages}: {pip_install('documents')}")):
        base.retrieve("figs")
    with pytest.raises(MissingExtraError):
        Documents(folder({}))


def test_importing_the_runtime_and_reading_text_loads_nothing_heavy(folder):
    script = (
        "import sys; from operad.runtime import Documents\n"
        "heavy = {'sqlite3', 'markitdown', 'openpyxl', 'pptx', 'pypdfium2'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        f"assert Documents({str(folder({'a.txt': 'figs'}))!r}).retrieve('figs').passages\n"
        "assert heavy & set(sys.modules) == {'sqlite3'}\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# Text


@pytest.mark.parametrize(
    "content", ["\ufefffigs 安装", "figs 安装".encode("utf-16"), b"\xfe\xff" + "figs 安装".encode("utf-16-be")]
)
def test_marks_of_byte_order_are_understood(folder, content):
    base = Documents(folder({"a.txt": content}))
    assert texts(base, "安装") == ["figs 安装"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"figs\0", "is not text; supported are: text in UTF-8, .csv, .docx, .htm, .html, .pdf, .pptx, .tsv, .xlsx"),
        ("figs\n安装".encode("gb18030"), "is not UTF-8 text (byte 0xb0 in line 2); convert it"),
        (b"\xff\xfef", "is not UTF-8 text"),
    ],
)
def test_what_is_not_text_is_left_out(folder, content, reason):
    docs = folder({"bad.txt": content, "a.txt": "figs"})
    base = Documents(docs)
    assert sources(base, "figs") == ["docs/a.txt:1"]
    assert base.skipped[str(docs / "bad.txt")].startswith(reason)


@pytest.mark.parametrize("content", [b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, b"\xd0\xcf"])
@pytest.mark.parametrize("suffix", [".doc", ".xls", ".ppt"])
def test_a_document_of_an_old_format_is_to_be_saved_in_the_new_one(folder, suffix, content):
    base = Documents(folder({f"old{suffix}": content, "a.txt": "figs"}))
    base.retrieve("figs")
    assert list(base.skipped.values()) == [f"is of an old format that is not read; save it as {suffix}x"]


def test_what_only_has_the_name_of_an_old_format_is_read(folder):
    assert texts(Documents(folder({"a.doc": "figs"})), "figs") == ["figs"]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.docx", b"hello", "cannot be read as a .docx file"),
        ("a.pdf", b"", "cannot be read as a .pdf file"),
        ("a.doc", b"\0", "save it as .docx"),
        ("a.csv", b"\0", "is not text"),
        ("a", b"\x7fELF\0", "is not text"),
    ],
)
def test_where_nothing_can_be_read_by_its_first_bytes_that_is_said_at_once(folder, name, content, reason):
    for package in ("markitdown", "mammoth", "pypdfium2"):
        import_module(package)
    with pytest.raises(InputError, match=f"docs: no file there that can be read; left out: .*{reason}"):
        Documents(folder({name: content}))


def test_an_empty_file_is_no_fault(folder):
    base = Documents(folder({"empty.txt": "", "a.txt": "figs"}))
    assert sources(base, "figs") == ["docs/a.txt:1"]
    assert dict(base.skipped) == {}


# Bounds


def test_what_is_too_large_is_left_out(folder, monkeypatch):
    docs = folder({"large.txt": "figs " * 30, "a.txt": "figs"})
    monkeypatch.setattr(folders, "MAX_FILE_BYTES", 100)
    base = Documents(docs)
    assert sources(base, "figs") == ["docs/a.txt:1"]
    assert base.skipped[str(docs / "large.txt")].startswith("150 bytes are more than the maximum of 100")


def test_what_grew_while_it_was_looked_at_is_left_out(folder, monkeypatch):
    docs = folder({"large.txt": "figs " * 30, "a.txt": "figs"})
    monkeypatch.setattr(documents, "MAX_FILE_BYTES", 100)
    base = Documents(docs)
    assert sources(base, "figs") == ["docs/a.txt:1"]
    assert list(base.skipped) == [str(docs / "large.txt")]


def test_a_file_of_too_many_passages_is_left_out(folder, monkeypatch):
    monkeypatch.setattr(extract, "MAX_FILE_PASSAGES", 2)
    base = Documents(folder({"many.md": "# A\nfigs\n# B\nfigs\n# C\nfigs", "a.md": "# A\nfigs\n# B\nfigs"}))
    assert sources(base, "figs") == ["docs/a.md:2 A", "docs/a.md:4 B"]
    assert "more than the maximum of 2 passages" in next(iter(base.skipped.values()))


def test_too_many_files_or_passages_are_an_error_that_says_so(folder, monkeypatch):
    base = Documents(folder({f"{n}.txt": "figs" for n in range(3)}))
    monkeypatch.setattr(documents, "MAX_PASSAGES", 2)
    for _ in range(2):
        with pytest.raises(InputError, match="docs: more than 2 passages; name fewer"):
            base.retrieve("figs")
    monkeypatch.setattr(folders, "MAX_FILES", 2)
    with pytest.raises(InputError, match="docs: more than 2 files; name fewer"):
        Documents(folder({}))


@pytest.mark.parametrize("passages", [0, -1, 101, 1.5, "3", True, None])
def test_the_number_of_passages_has_bounds(folder, passages):
    with pytest.raises(InputError, match="passages: must be a whole number from 1 to 100, not "):
        Documents(folder({"a.txt": "figs"}), passages=passages)


# Paths


def test_paths_that_do_not_exist_are_all_named_with_near_ones(folder, tmp_path):
    folder({"a.txt": "figs"})
    with pytest.raises(InputError) as caught:
        Documents([tmp_path / "doks", tmp_path / "docs", tmp_path / "docs" / "b.txt", "/no/such/place", "a\0b"])
    said = str(caught.value).splitlines()
    assert said[0] == f"{tmp_path}/doks: no such file or folder (did you mean 'docs'?)"
    assert said[1].strip() == f"{tmp_path}/docs/b.txt: no such file or folder (did you mean 'a.txt'?)"
    assert said[2].strip() == "/no/such/place: no such file or folder"
    assert "cannot be read" in said[3]
    with pytest.raises(InputError, match="name at least one"):
        Documents([])


@pytest.mark.parametrize("paths", ["", " ", ["docs", ""]])
def test_an_empty_path_is_not_the_current_folder(paths):
    with pytest.raises(InputError, match=r"is empty; write '\.' for the current folder"):
        Documents(paths)


@pytest.mark.parametrize("query", [None, 3, b"figs"])
def test_a_query_that_is_no_text_is_an_error_that_says_so(folder, query):
    with pytest.raises(InputError, match="query: must be text, not "):
        Documents(folder({"a.txt": "figs"})).retrieve(query)


def test_folders_without_a_file_are_an_error_that_says_what_was_looked_at(tmp_path):
    (tmp_path / "empty" / ".git").mkdir(parents=True)
    (tmp_path / "empty" / ".git" / "config").write_text("figs")
    with pytest.raises(InputError, match=r"empty: no file there that can be read \(hidden ones don't count\)"):
        Documents(tmp_path / "empty")
    (tmp_path / "empty" / "out").symlink_to("/etc/passwd")
    with pytest.raises(
        InputError, match=r"empty: no file there that can be read; left out: .*out is a link to a place outside"
    ):
        Documents(tmp_path / "empty")


def test_hidden_files_and_folders_are_passed_over(folder):
    base = Documents(folder({".git/a.txt": "figs", ".env": "figs", "x/.venv/y.py": "figs", "a.txt": "figs"}))
    assert sources(base, "figs") == ["docs/a.txt:1"]
    assert dict(base.skipped) == {}


def test_a_hidden_folder_that_is_named_counts(folder):
    docs = folder({".notes/a.txt": "figs"})
    assert sources(Documents(docs / ".notes"), "figs") == [".notes/a.txt:1"]


def test_links_are_not_followed_and_those_that_lead_out_or_nowhere_are_told(folder, tmp_path):
    (tmp_path / "secret.txt").write_text("figs")
    (tmp_path / "secrets").mkdir()
    docs = folder({"a.txt": "figs", "inner/b.txt": "figs"})
    for name, target in {
        "out.txt": tmp_path / "secret.txt",
        "out": tmp_path / "secrets",
        "loop": docs,
        "inner/up": docs / "inner",
        "same.txt": docs / "a.txt",
        "circle": docs / "circle",
        "nowhere": docs / "missing",
    }.items():
        (docs / name).symlink_to(target)
    base = Documents(docs)
    assert sorted(sources(base, "figs")) == ["docs/a.txt:1", "docs/inner/b.txt:1"]
    assert sorted(Path(path).name for path in base.skipped) == ["circle", "nowhere", "out", "out.txt"]
    assert "is a link to a place outside the folder" in base.skipped[str(docs / "out.txt")]
    (tmp_path / "link").symlink_to(docs)
    assert sources(Documents(tmp_path / "link" / "a.txt"), "figs") == ["a.txt:1"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_what_is_no_file_is_left_out_and_does_not_hang(folder):
    docs = folder({"a.txt": "figs"})
    os.mkfifo(docs / "pipe")
    base = Documents(docs)
    assert sources(base, "figs") == ["docs/a.txt:1"]
    assert base.skipped[str(docs / "pipe")] == "is not a regular file"


@pytest.mark.skipif(sys.platform != "linux", reason="names are text there")
def test_a_name_that_is_no_text_is_left_out(folder):
    docs = folder({"a.txt": "figs"})
    Path(os.fsdecode(bytes(docs) + b"/\xff.txt")).write_text("figs")
    base = Documents(docs)
    assert sources(base, "figs") == ["docs/a.txt:1"]
    assert dict(base.skipped) == {f"{docs}/\\xff.txt": "its name is not UTF-8; rename it"}


def test_what_may_not_be_read_is_left_out_until_it_may(folder, monkeypatch, caplog):
    docs = folder({"a.txt": "figs", "b.txt": "figs"})
    allowed = False

    def guarded(path, *rest, **others):
        if Path(path).name == "b.txt" and not allowed:
            raise PermissionError(13, "Permission denied")
        return open(path, *rest, **others)

    monkeypatch.setattr(documents, "open", guarded, raising=False)
    base = Documents(docs)
    assert sources(base, "figs") == ["docs/a.txt:1"]
    assert sources(base, "figs") == ["docs/a.txt:1"]
    assert base.skipped == {str(docs / "b.txt"): "cannot be read: Permission denied"}
    assert len(caplog.records) == 1
    allowed = True
    assert sources(base, "figs") == ["docs/a.txt:1", "docs/b.txt:1"]
    assert base.skipped == {}


def test_a_folder_that_may_not_be_read_is_left_out(folder, monkeypatch):
    docs = folder({"a.txt": "figs", "shut/b.txt": "figs"})
    scandir = os.scandir

    def guarded(path):
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(folders.os, "scandir", guarded)
    base = Documents(docs)
    assert sources(base, "figs") == ["docs/a.txt:1"]
    assert base.skipped == {str(docs / "shut"): "cannot be read: Permission denied"}


# Changes


@pytest.fixture(params=["memory", "file"])
def index(request, tmp_path):
    return None if request.param == "memory" else tmp_path / "index.sqlite"


def age(file, seconds=100):
    """Have a file changed some time ago."""
    then = file.stat().st_mtime_ns - seconds * 10**9
    os.utime(file, ns=(then, then))


def test_the_next_query_sees_what_was_added_changed_and_removed_and_reads_only_that(folder, index, read):
    docs = folder({"a.txt": "figs", "b.txt": "nuts", "c.txt": "dates"})
    base = Documents(docs, index=index)
    assert read == []
    assert sources(base, "figs nuts") == ["docs/a.txt:1", "docs/b.txt:1"]
    assert read == ["a.txt", "b.txt", "c.txt"]
    read.clear()
    folder({"b.txt": "plums", "d.txt": "figs"})
    (docs / "c.txt").unlink()
    assert sources(base, "nuts dates") == []
    assert sources(base, "plums") == ["docs/b.txt:1"]
    assert sources(base, "figs") == ["docs/a.txt:1", "docs/d.txt:1"]
    assert read == ["b.txt", "d.txt"]


def test_a_change_of_the_same_size_in_the_same_moment_is_seen(folder, index):
    base = Documents(folder({"a.txt": "figs"}), index=index)
    for word in ("nuts", "figs", "kiwi") * 5:
        folder({"a.txt": word})
        assert texts(base, word) == [word]


def test_a_change_that_leaves_size_and_time_as_they_were_is_seen_if_it_follows_at_once(folder, index):
    file = folder({"a.txt": "figs"}) / "a.txt"
    then = file.stat().st_mtime_ns
    base = Documents(file, index=index)
    assert texts(base, "figs") == ["figs"]
    file.write_text("nuts")
    os.utime(file, ns=(then, then))
    assert texts(base, "nuts") == ["nuts"]


def test_what_was_removed_leaves_the_index(folder, tmp_path):
    docs = folder({"a.txt": "figs", "b.txt": "nuts"})
    base = Documents(docs, index=tmp_path / "index.sqlite")
    base.retrieve("figs")
    (docs / "b.txt").unlink()
    base.retrieve("figs")
    assert list(PassageIndex(tmp_path / "index.sqlite").files()) == [str(docs / "a.txt")]


def test_a_file_that_is_as_it_was_is_not_opened_and_one_with_the_same_content_is_not_read_again(
    folder, index, read, monkeypatch
):
    docs = folder({"a.txt": "figs"})
    age(docs / "a.txt")
    base = Documents(docs, index=index)
    assert sources(base, "figs") == ["docs/a.txt:1"]
    opened = []

    def noted(path, mode):
        opened.append(path)
        return open(path, mode)

    monkeypatch.setattr(documents, "open", noted, raising=False)
    assert sources(base, "figs") == ["docs/a.txt:1"]
    assert opened == []
    age(docs / "a.txt")
    assert sources(base, "figs") == ["docs/a.txt:1"]
    assert sources(base, "figs") == ["docs/a.txt:1"]
    assert (len(opened), read) == (1, ["a.txt"])


def test_what_is_left_out_is_not_read_again_until_it_changes(folder, index, read):
    docs = folder({"a.txt": "figs", "b.txt": b"\0"})
    base = Documents(docs, index=index)
    for _ in range(2):
        sources(base, "figs")
        assert list(base.skipped) == [str(docs / "b.txt")]
    assert read == ["a.txt", "b.txt"]
    folder({"b.txt": "nuts"})
    assert sources(base, "nuts") == ["docs/b.txt:1"]
    assert dict(base.skipped) == {}


def test_when_all_files_are_gone_nothing_is_found(folder, index):
    docs = folder({"a.txt": "figs"})
    base = Documents(docs, index=index)
    assert sources(base, "figs")
    (docs / "a.txt").unlink()
    assert sources(base, "figs") == []
    docs.rmdir()
    assert sources(base, "figs") == []
    folder({}).mkdir(exist_ok=True)


def test_an_index_in_a_file_outlives_its_knowledge_base(folder, tmp_path, read):
    docs = folder({"a.txt": "figs", "b.txt": b"\0"})
    for file in docs.iterdir():
        age(file)
    for _ in range(2):
        base = Documents(docs, index=tmp_path / "index.sqlite")
        assert sources(base, "figs") == ["docs/a.txt:1"]
        assert len(base.skipped) == 1
        base.close()
    assert read == ["a.txt", "b.txt"]


def test_a_closed_one_can_be_used_again(folder, index):
    base = Documents(folder({"a.txt": "figs"}), index=index)
    for _ in range(2):
        assert sources(base, "figs") == ["docs/a.txt:1"]
        base.close()


def test_knowledge_bases_that_share_an_index_keep_out_of_each_others_way(folder, tmp_path, read):
    docs = folder({"one/a.txt": "figs", "two/b.txt": "figs"})
    index = tmp_path / "index.sqlite"
    one, two = Documents(docs / "one", index=index), Documents(docs / "two", index=index)
    for _ in range(2):
        assert sources(one, "figs") == ["one/a.txt:1"]
        assert sources(two, "figs") == ["two/b.txt:1"]
    assert sorted(sources(Documents(docs, index=index), "figs")) == ["docs/one/a.txt:1", "docs/two/b.txt:1"]
    assert read == ["a.txt", "b.txt"]


def test_an_index_that_lies_in_its_own_folder_is_not_read(folder, read):
    docs = folder({"a.txt": "figs"})
    base = Documents(docs, index=docs / "index.sqlite")
    for _ in range(2):
        assert sources(base, "figs") == ["docs/a.txt:1"]
    assert (docs / "index.sqlite").exists()
    assert (read, dict(base.skipped)) == (["a.txt"], {})


# The file of the index


@pytest.mark.parametrize("content", [b"not a database, " * 100, None])
def test_a_file_that_is_no_index_is_an_error_and_stays_as_it_is(folder, tmp_path, content):
    index = tmp_path / "index.sqlite"
    if content is None:
        connection = sqlite3.connect(index)
        connection.execute("CREATE TABLE mine (x)")
        connection.close()
    else:
        index.write_bytes(content)
    before = index.read_bytes()
    with pytest.raises(InputError, match=r"index\.sqlite: .*(an index of passages|no index of passages)"):
        Documents(folder({"a.txt": "figs"}), index=index)
    assert index.read_bytes() == before


def test_an_index_that_is_damaged_is_an_error_that_says_what_to_do(folder, tmp_path):
    index = tmp_path / "index.sqlite"
    docs = folder({f"{n}.txt": "figs " * 200 for n in range(50)})
    base = Documents(docs, index=index)
    base.retrieve("figs")
    base.close()
    with index.open("r+b") as stream:
        stream.seek(4096)
        stream.write(b"\xa5" * (index.stat().st_size - 4096))
    with pytest.raises(InputError, match=r"index\.sqlite: cannot be used as an index of passages: .*move it away"):
        Documents(docs, index=index).retrieve("figs")


def test_an_index_in_a_folder_that_is_missing_is_an_error(folder, tmp_path):
    base = Documents(folder({"a.txt": "figs"}), index=tmp_path / "missing" / "index.sqlite")
    with pytest.raises(InputError, match="check that its folder exists"):
        base.retrieve("figs")


def test_an_index_keeps_what_it_is_given_by_path(tmp_path):
    index = PassageIndex(tmp_path / "index.sqlite")
    file = IndexedFile(1, 2, "hash", "", 1)
    index.put("/a", file, [IndexedPassage("figs", ":1", "H")])
    index.put("/a", file, [IndexedPassage("nuts")])
    index.touch("/a", 3)
    assert index.files() == {"/a": IndexedFile(1, 3, "hash", "", 1)}
    assert index.search("figs", {"/a"}, 5) == []
    assert [hit.passage for hit in index.search("nuts", {"/a"}, 5)] == [IndexedPassage("nuts")]
    assert index.search("nuts", {"/b"}, 5) == []
    index.remove(["/a", "/b"])
    assert (index.files(), index.search("nuts", {"/a"}, 5)) == ({}, [])


def test_an_index_that_is_a_folder_is_an_error(folder, tmp_path):
    with pytest.raises(InputError, match="docs: is a folder; name a file in it"):
        Documents(folder({"a.txt": "figs"}), index=tmp_path / "docs")
    with pytest.raises(InputError, match="index: is empty"):
        Documents(folder({}), index="")


def test_an_index_is_looked_at_but_not_made_before_it_is_needed(folder, tmp_path):
    index = tmp_path / "index.sqlite"
    Documents(folder({"a.txt": "figs"}), index=index)
    assert not index.exists()
    Documents(folder({}), index=index).retrieve("figs")
    assert sources(Documents(folder({}), index=index), "figs") == ["docs/a.txt:1"]


# Threads and processes


def in_threads(calls):
    """What each call gives when all run at once."""
    results = [None] * len(calls)
    start = threading.Barrier(len(calls))

    def run(number, call):
        start.wait()
        results[number] = call()

    threads = [threading.Thread(target=run, args=item) for item in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_threads_may_share_one(folder, index, read):
    docs = folder({f"{n}.txt": f"word{n} figs" for n in range(30)})
    base = Documents(docs, index=index)
    found = in_threads([lambda n=n: sources(base, f"word{n}") for n in range(30)])
    assert found == [[f"docs/{n}.txt:1"] for n in range(30)]
    assert len(read) == 30


def test_files_may_change_while_threads_ask(folder, index):
    docs = folder({f"{n}.txt": f"word{n} figs" for n in range(10)})
    base = Documents(docs, index=index)

    def change():
        for n in range(20):
            folder({"new.txt": f"figs {n}"})
            (docs / "new.txt").unlink()
        return []

    found = in_threads([change, *[lambda: sources(base, "word3")] * 6])
    assert found[1:] == [["docs/3.txt:1"]] * 6


def test_processes_may_share_an_index(folder, tmp_path, forked):
    docs, index = folder({f"{n}.txt": f"word{n} figs" for n in range(40)}), tmp_path / "index.sqlite"
    script = (
        "from operad.runtime import Documents\n"
        f"base = Documents({str(docs)!r}, index={str(index)!r})\n"
        "print([p.source for n in range(40) for p in base.retrieve(f'word{n}').passages] "
        "== [f'docs/{n}.txt:1' for n in range(40)])"
    )
    running = [
        forked.begin([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [process.communicate() for process in running] == [("True\n", "")] * 3


# Fingerprint


def test_the_fingerprint_goes_by_name_and_content(folder, index, tmp_path):
    docs = folder({"a.txt": "figs", "b.txt": "nuts"})
    base = Documents(docs, index=index)
    first = base.fingerprint()
    assert first["type"] == "operad.Documents"
    age(docs / "a.txt")
    assert base.fingerprint() == first == Documents([str(docs)]).fingerprint()
    assert Documents(docs, passages=6).fingerprint() != first
    folder({"a.txt": "kiwi"})
    second = base.fingerprint()
    assert second != first
    (docs / "a.txt").rename(docs / "c.txt")
    assert base.fingerprint() not in (first, second)
    (docs / "c.txt").rename(docs / "a.txt")
    folder({"a.txt": "figs"})
    assert base.fingerprint() == first


def test_a_descriptor_and_a_path_lead_to_the_same_file(folder):
    file = FileDescriptor.of(folder({"a.txt": "figs"}) / "a.txt")
    assert sources(Documents([file.path]), "figs") == ["a.txt:1"]
