"""What strangers send: each is an answer or an error that says why, and does no harm. docs/security.md lists all of it.

What other test files attack already is not repeated here.
"""

import io
import re
import struct
import zipfile
import zlib
from itertools import pairwise
from pathlib import Path

import pytest
from amounts import sample
from answer_forms import parsed

from operad.flows.formats.json_text import read_json
from operad.flows.formats.table import FORMATS, find_format
from operad.flows.formats.yaml_text import read_yaml
from operad.integrations.coze.format import load as load_coze
from operad.integrations.dify.format import load as load_dify
from operad.operators.media.documents import read_document, text_of
from operad.operators.nodes.flow import read_value
from operad.operators.sandbox.code import CodeError, CodeLimits, run_code
from operad.operators.sandbox.template import TemplateError, render_template
from operad.operators.variables import VariableType
from operad.operators.web.fetch import Guard, fetch
from operad.runtime import FileDescriptor
from operad.runtime.knowledge import readers
from operad.runtime.knowledge.extract import extract, passages_of
from operad.runtime.knowledge.reader_process import ReadingLimits
from operad.runtime.values import document
from operad.runtime.values.document import parse_document
from operad.runtime.values.errors import FetchError, InputError, InvalidError

ROOT = Path(__file__).parents[3]


# YAML

NO_VALUES = [
    "!!bool maybe",
    "!!timestamp x",
    "!!timestamp 2024-99-99",
    "!!int ''",
    "!!int '-'",
    "!!int abc",
    "!!float ''",
]
FOREIGN = [
    "!!python/object/apply:os.system [id]",
    "!!python/object/new:os.system [id]",
    "!!python/name:os.system ''",
    "!!python/module:os ''",
    "!!python/tuple [1]",
    "!ruby/object:Gem::Installer {}",
    "!include /etc/passwd",
    "!!set {a}",
    "!!omap [a: 1]",
]
BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
TEXT_BOMB = f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 10_000)}]"


@pytest.mark.parametrize("value", [*NO_VALUES, *FOREIGN])
@pytest.mark.parametrize("read", [parse_document, lambda text, name: read_yaml(text.encode(), name)])
def test_a_tag_makes_no_object_and_one_without_its_value_is_an_issue(read, value):
    with pytest.raises(InvalidError) as caught:
        read(f"a: {value}", "f")
    [issue] = caught.value.issues
    assert issue.code in {"tag", "yaml"}
    assert not re.search("NoneType|index out of range", issue.message)


@pytest.mark.parametrize("value", [*NO_VALUES, *FOREIGN])
def test_a_tag_in_an_output_schema_makes_no_object(value):
    assert parsed(f"type: object\nproperties: {{a: {{default: {value}}}}}") is None


@pytest.mark.parametrize("value", ["!!binary aGVsbG8=", "!!timestamp 2024-01-01", "!!set {a}"])
def test_an_output_schema_has_what_json_has_alone(value):
    with pytest.raises(InvalidError, match="neither JSON nor YAML"):
        parsed(f"{{type: object, properties: {{a: {{default: {value}}}}}}}")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (BOMB, "size"),
        (TEXT_BOMB, "size"),
        ("a: &a {b: [*a]}", "cycle"),
        ("a: " + "[" * 1_000_000, "depth"),
        ("a: " + "{a: " * 500_000, "depth"),
        ("- " * 1_000_000, "depth"),
        ("".join(" " * n + "a:\n" for n in range(1_000)), "depth"),
        ("a: " + "9" * 1_000_000, "number"),
        ("a: !!int 0x" + "f" * 1_000_000, "number"),
        ("a: !!int " + ":".join(["59"] * 1_000), "number"),
        ("a: {<<: {b: 1}}", "merge"),
        ("a: 1\na: 2", "duplicate-key"),
        ("{a: 1}: 2", "plain text"),
        ("a: *b", "b"),
        ("a: *" + "b" * 100_000, "b"),
        ("a: \0", "U+0000 is not allowed"),
    ],
)
@pytest.mark.parametrize("read", [parse_document, lambda text, name: read_yaml(text.encode(), name)])
def test_yaml_that_would_fill_the_memory_or_the_stack_is_refused(read, text, code):
    with pytest.raises(InvalidError) as caught:
        read(text, "f")
    said = str(caught.value)
    assert code in said or (code == "cycle" and "complete before it" in said)
    assert len(said) < 1_000


@pytest.mark.parametrize("value", ["!!bool maybe", "!!timestamp x", "!!int ''", "!!float ''"])
def test_a_dify_file_with_a_broken_tag_is_refused(value):
    with pytest.raises(InvalidError, match="this value cannot be read"):
        load_dify(f"kind: app\napp: {{mode: workflow}}\nworkflow: {{graph: {{nodes: {value}}}}}".encode(), "f")


def doubled(levels):
    inside = "".join(
        f"  a{n}: &a{n} {{type: object, properties: {{x: *a{n - 1} , y: *a{n - 1} }}}}\n" for n in range(1, levels)
    )
    return f"type: object\nproperties:\n  a0: &a0 {{type: string}}\n{inside}"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (doubled(40), "too-large"),
        ("type: object\nproperties: &a\n  x: {type: object, properties: *a}", "too-deep"),
        ("{type: object, properties: {a: &a {type: array, items: *a}}}", "too-deep"),
        ('{"type": "object", "properties": {"a":' * 300 + '{"type": "string"}' + "}}" * 300, "too-deep"),
    ],
)
def test_an_output_schema_without_end_is_refused(text, code):
    with pytest.raises(InvalidError) as caught:
        parsed(text)
    assert [issue.code for issue in caught.value.issues] == [code]


def test_an_output_schema_may_use_an_alias():
    schema = parsed("type: object\nproperties:\n  a: &a {type: string}\n  b: *a")
    assert schema == {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}


# JSON


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100 + "]" * 100,
        "[" * 1_000_000,
        '{"a":' * 200_000,
        "9" * 5_000,
        '{"a": 1, "a": 2}',
        "[1] 2",
        "",
        "\0",
        "{'a': 1}",
    ],
)
def test_json_that_is_deep_or_broken_is_refused(text):
    with pytest.raises(InvalidError) as caught:
        read_json(text, "f")
    assert len(str(caught.value)) < 1_000


def test_a_document_of_too_many_values_is_read_no_further(monkeypatch):
    monkeypatch.setattr(document, "MAX_VALUES", 20)
    with pytest.raises(InvalidError) as caught:
        parse_document("".join(f"k{number}: 1\n" for number in range(300_000)), "f.yaml")
    [issue] = caught.value.issues
    assert (issue.code, issue.message, issue.where) == (
        "size",
        "holds more than 20 values once its aliases are replaced",
        "f.yaml:20",
    )


def test_megabytes_of_yaml_are_not_given_to_the_parser_of_python(monkeypatch):
    monkeypatch.setattr("ast.parse", pytest.fail)  # it takes a second for each megabyte
    assert find_format(b"# notes (of mine)\n" + b"".join(b"k%d: 1\n" % number for number in range(300_000))) is None


def test_a_million_blank_lines_take_no_time():
    assert find_format(b"a: b\n" + b"\n" * 1_000_000) is None


def test_code_of_comfyui_is_known_by_its_first_call():
    for code in ("a = Load()\n", "# made by\n\n  # hand\r\na, b = \\\nLoad()", "\ufeffLoad(x=1)"):
        assert find_format(code.encode()) is FORMATS["comfyui-code"], code
    assert find_format(b"a: 1\nb = Load()") is None


def test_every_key_that_stands_twice_is_named_with_its_place():
    text = '{"a": 1, "b": {"a": [{"a": "}:"}, {"a": 1,\n  "a" : 2}]},\n "\\u0061": {"c\\"": 1, "c\\"": 2}}'
    with pytest.raises(InvalidError) as caught:
        read_json(text, "f")
    assert [(issue.code, issue.where, issue.message) for issue in caught.value.issues] == [
        ("duplicate-key", "line 2, column 3", "the key 'a' stands here twice"),
        ("duplicate-key", "line 3, column 2", "the key 'a' stands here twice"),
        ("duplicate-key", "line 3, column 23", "the key 'c\"' stands here twice"),
    ]


def test_of_countless_keys_that_stand_twice_the_first_hundred_are_named():
    with pytest.raises(InvalidError) as caught:
        read_json("{" + '"a": 1,\n' * 100_000 + '"a": 1}', "f")
    assert [issue.where for issue in caught.value.issues] == [f"line {line}, column 1" for line in range(2, 102)]


def test_an_input_in_which_a_key_stands_twice_is_refused():
    assert read_value('{"a": 1, "b": 2}', VariableType.OBJECT) == {"a": 1, "b": 2}
    with pytest.raises(InputError, match=r"^the key 'a' stands twice in one object \(line 2, column 2\)$"):
        read_value('{"a": 1,\n "a": 2}', VariableType.OBJECT)


def test_a_list_that_is_not_closed_is_no_text_in_a_list():
    assert read_value("Ann", VariableType.ARRAY_STRING) == ["Ann"]
    with pytest.raises(InputError, match=r"^expected array\[string\], got "):
        read_value('["Ann"', VariableType.ARRAY_STRING)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_numbers_that_are_not_finite_are_nothing(text):
    assert read_json(text, "f") is None


# Archives and documents

SHEET = (
    '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>{}</sheetData></worksheet>'
)
WORDS = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
LINKS = "http://schemas.openxmlformats.org/package/2006/relationships"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
LAUGHS = '<!ENTITY a "haha">' + "".join(
    f'<!ENTITY {new} "{f"&{old};" * 10}">' for old, new in zip("abcdefghi", "bcdefghij", strict=True)
)


def zipped(files):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def docx(body, before="", target="word/document.xml"):
    link = f'<Relationships xmlns="{LINKS}"><Relationship Id="r" Type="{OFFICE}" Target="{target}"/></Relationships>'
    text = f'{before}<w:document xmlns:w="{WORDS}"><w:body>{body}</w:body></w:document>'
    return zipped({"_rels/.rels": link, "word/document.xml": text})


def paragraph(text):
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def xlsx(rows, before=""):
    openpyxl = pytest.importorskip("openpyxl")
    book = io.BytesIO()
    openpyxl.Workbook().save(book)
    with zipfile.ZipFile(book) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    return zipped({**files, "xl/worksheets/sheet1.xml": before + SHEET.format(rows)})


def listing(count):
    """A zip file that is nothing but the list of its files."""
    listed = (b"PK\1\2" + bytes(42)) * count
    many = struct.pack("<QHHLLQQQQ", 44, 45, 45, 0, 0, count, count, len(listed), 0)
    place = struct.pack("<LQL", 0, len(listed), 1)
    end = struct.pack("<HHHHLLH", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return listed + b"PK\6\6" + many + b"PK\6\7" + place + b"PK\5\6" + end


@pytest.fixture
def refusal(tmp_path):
    """Why a document is refused: read for a workflow, and for a knowledge base."""

    def of(name, data):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError) as first:
            read_document(FileDescriptor.of(tmp_path / name))
        with pytest.raises(InputError) as second:
            extract(data, name)
        return f"{first.value}\n{second.value}"

    return of


@pytest.mark.parametrize(
    "rows",
    [
        '<row r="1000000000000"><c r="A1000000000000"><v>1</v></c></row>',
        "".join(f'<row r="{n}"><c r="ZZZ{n}"/></row>' for n in range(1, 100)),
        '<row r="1">' + "".join(f'<c t="str"><v>{"x" * 1_000}</v></c>' for _ in range(200)) + "</row>",
    ],
)
@pytest.mark.parametrize("of", [lambda data: text_of(data, ".xlsx", 10**6), lambda data: passages_of(data, ".xlsx")])
def test_a_sheet_of_rows_and_cells_without_end_is_refused(of, monkeypatch, rows):
    monkeypatch.setattr(readers, "MAX_TABLE_SIZE", 100_000)
    with pytest.raises(InputError, match="is larger than the maximum of 100,000 rows, cells and characters"):
        of(xlsx(rows))


def test_a_document_that_is_nested_too_deep_is_refused(refusal):
    pytest.importorskip("mammoth")
    data = docx("<w:tbl>" * 3_000 + paragraph("x") + "</w:tbl>" * 3_000)
    assert refusal("a.docx", data).count("nests its elements too deep to be read") == 2


def test_a_document_whose_xml_is_broken_is_refused(refusal):
    pytest.importorskip("mammoth")
    data = zipped({"word/document.xml": "<a>" * 9, "picture.png": b"<no XML"})
    assert refusal("a.docx", data).count("cannot be read as a .docx file: ") == 2


@pytest.mark.parametrize("name", ["a.docx", "a.xlsx", "a.pptx"])
def test_a_document_of_too_many_parts_is_refused(refusal, name):
    pytest.importorskip("markitdown")
    assert refusal(name, listing(10_001)).count("holds more than the maximum of 10,000 files") == 2


def lying(name, size):
    """A zip file whose directory states 1,000 bytes for a part of many more, with the sum of these 1,000."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, b"0" * size)
        entry = archive.infolist()[0]
    truth = struct.pack("<LLL", entry.CRC, entry.compress_size, entry.file_size)
    lie = struct.pack("<LLL", zlib.crc32(b"0" * 1000), entry.compress_size, 1000)
    assert packed.getvalue().count(truth) == 2
    return packed.getvalue().replace(truth, lie)


@pytest.mark.parametrize("name", sample(["a.docx", "a.xlsx", "a.pptx"], 3))
def test_a_document_whose_directory_understates_its_parts_fills_the_memory_of_its_reader_alone(name):
    pytest.importorskip("markitdown")
    parts = {"a.docx": "word/document.xml", "a.xlsx": "[Content_Types].xml", "a.pptx": "[Content_Types].xml"}
    with pytest.raises(InputError):
        extract(lying(parts[name], 2**26), name, ReadingLimits(seconds=5, memory_bytes=2**25))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_method_of_packing_that_unpacks_without_a_bound_is_refused(refusal, method):
    pytest.importorskip("markitdown")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        archive.writestr("workflow/a-draft.yaml", b"0" * 2**20)
    assert refusal("a.docx", packed.getvalue()).count("by a method that office programs do not use") == 2
    with pytest.raises(InvalidError, match="is not packed by deflate"):
        load_coze(packed.getvalue(), "a")


def test_an_archive_of_too_many_files_is_refused():
    with pytest.raises(InvalidError, match="has 300,000 files; the maximum is 200"):
        load_coze(listing(300_000), "a")


def test_entities_of_xml_grow_into_nothing_and_name_no_files(refusal):
    pytest.importorskip("mammoth")
    outside = '<!ENTITY a SYSTEM "file:///etc/passwd">'
    for inside in (LAUGHS, outside):
        refusal("a.xlsx", xlsx('<row r="1"><c r="A1" t="str"><v>&j;&a;</v></c></row>', f"<!DOCTYPE x [{inside}]>"))
        refusal("a.docx", docx(paragraph("&j;&a;"), f"<!DOCTYPE x [{inside}]>"))


def test_a_document_whose_parts_lie_outside_has_only_its_own():
    pytest.importorskip("mammoth")
    assert [found.text for found in extract(docx(paragraph("figs"), target="../../../../etc/passwd"), "a.docx")] == [
        "figs"
    ]


@pytest.mark.parametrize(
    "html",
    ["<!--" * 50_000, "<a " * 20_000, "<a x='" * 20_000, "<!--" * 50_000 + ">", "</a " * 20_000, "<a " * 20_000 + ">"],
)
def test_html_that_is_never_closed_is_read_at_once(html):
    pytest.importorskip("markitdown")
    extract(f"<p>figs</p>{html}".encode(), "a.html")
    assert extract(b"<p>figs</p>1 < 2 <!-- 3", "a.html")[0].text == "figs\n\n1 < 2 <!-- 3"


# Templates


@pytest.mark.parametrize(
    "template",
    r"""{{ ''.__class__.__mro__[1].__subclasses__() }}
    {{ ''.__class__.__base__.__subclasses__()[104].__init__.__globals__['sys'].modules['os'].popen('id').read() }}
    {{ [].__class__.__base__.__subclasses__() | length }}
    {{ cycler.__init__.__globals__.os.popen('id').read() }}
    {{ joiner.__init__.__globals__.os.popen('id').read() }}
    {{ namespace.__init__.__globals__.os.popen('id').read() }}
    {{ lipsum.__globals__['os'].popen('id').read() }}
    {{ self.__init__.__globals__.__builtins__.__import__('os').popen('id').read() }}
    {{ self._TemplateReference__context.cycler.__init__.__globals__.os.popen('id').read() }}
    {{ request.application.__globals__.__builtins__.__import__('os').popen('id').read() }}
    {{ request|attr('application')|attr('\x5f\x5fglobals\x5f\x5f')|attr('\x5f\x5fgetitem\x5f\x5f')('os') }}
    {{ config.__class__.from_envvar.__globals__.__loader__.load_module('os') }}
    {{ ()|attr('\x5f\x5fclass\x5f\x5f') }}
    {{ ()|attr(['_'*2,'class','_'*2]|join) }}
    {{ ()['__cla' ~ 'ss__'] }}
    {% set c = '__class__' %}{{ ()[c] }}
    {% for c in [].__class__.__base__.__subclasses__() %}{{ c.__init__.__globals__['__builtins__'] }}{% endfor %}
    {% with a = ().__class__ %}{{ a }}{% endwith %}
    {{ ('{0.__class__}'|attr('format'))(x) }}
    {{ ['{0.__class__}']|map('format', x)|map('length')|sum(attribute='__class__') }}
    {{ [x]|map('{0.__class__}'.format)|list }}
    {{ 'a'|replace('a', '{0.__class__}'.format) }}
    {{ ('{0.__class__}'|safe).format(x) }}
    {{ ('{0.__class__}'|e).format(x) }}
    {% autoescape true %}{{ '{0.__class__}'.format(x) }}{% endautoescape %}
    {{ {'a onload=alert(1)': 1}|xmlattr }}
    {{ x.mro() }}
    {{ dict.mro() }}
    {{ dict|attr('__base__') }}
    {{ range.__globals__ }}
    {{ x.format.__globals__ }}
    {{ [x]|sort(attribute='__class__') }}
    {{ [x]|min(attribute='__class__') }}
    {{ [x]|unique(attribute='__class__')|list }}
    {{ {}.update({'a': 1}) }}
    {% macro m() %}{% endmacro %}{{ m.__call__.__globals__ }}
    {% for i in [1] %}{{ loop.__init__.__globals__ }}{% endfor %}
    {% macro a() %}{{ a() }}{% endmacro %}{{ a() }}
    {% block b %}{{ self.b() }}{% endblock %}
    {% filter attr('__class__') %}x{% endfilter %}
    {% set x %}a{% endset %}{{ x.__class__ }}
    {% include ['../../etc/passwd'] %}
    {% debug %}""".split("\n    "),
)
def test_known_ways_out_of_jinja_lead_nowhere(template):
    with pytest.raises(TemplateError):
        render_template(template, {"x": "abc"})


@pytest.mark.parametrize(
    "name", ["self", "environment", "context", "__builtins__", "url_for.__globals__", "loop.__class__"]
)
def test_what_jinja_or_a_framework_would_know_is_nothing(name):
    assert render_template(f"[{{{{ {name} if name else '' }}}}]", {}) == "[]"


def test_a_value_is_not_rendered_again():
    assert render_template("{{ x }}", {"x": "{{ 7 * 7 }}{{#1.key#}}"}) == "{{ 7 * 7 }}{{#1.key#}}"


# Code

SMALL = CodeLimits(seconds=1.0, memory_bytes=32_000_000, output_chars=1_000)

FRAMES = "try:\n    1/0\nexcept Exception as error:\n    return {{'x': str(error.{})}}"


@pytest.mark.parametrize(
    "body",
    [
        "return {'x': type(()).__subclasses__()}",
        "return {'x': type.__subclasses__(object)}",
        "class X(object): pass\nreturn {'x': X.__subclasses__()}",
        "class X(Exception): pass\nreturn {'x': str(X.__bases__)}",
        "return {'x': str(type('X', (object,), {}).__mro__)}",
        FRAMES.format("__traceback__.tb_frame.f_globals"),
        FRAMES.format("__traceback__.tb_next"),
        FRAMES.format("__context__.__class__"),
        "import sys\nreturn {'x': str(sys._getframe())}",
        "import sys\nreturn {'x': str(sys.exc_info())}",
        "g = (i for i in [1])\nreturn {'x': str(g.gi_frame)}",
        "g = (i for i in [1])\nreturn {'x': str(g.gi_code)}",
        "async def f(): pass\nreturn {'x': str(f().cr_frame)}",
        "def f(): pass\nf.__code__ = None\nreturn {}",
        "return {'x': str((lambda: 0).__closure__)}",
        "return {'x': str((lambda: 0).__globals__)}",
        "return {'x': str(main.__builtins__)}",
        "return {'x': str(main.__dict__)}",
        "return {'x': '{0.__class__.__mro__}'.format(())}",
        "return {'x': '{x.__class__}'.format(x=main)}",
        "return {'x': '{x.__class__}'.format_map({'x': 1})}",
        "import string\nreturn {'x': string.Formatter().format('{0.__class__}', 1)}",
        "return {'x': getattr(main, '__glo' + 'bals__', None) or 1 / 0}",
        "return {'x': hasattr(main, '__globals__') or 1 / 0}",
        "setattr(print, 'x', 1)\nreturn {}",
        "return {'x': str(object.__getattribute__(main, '__globals__'))}",
        "return {'x': str(().__reduce_ex__(2))}",
        "return {'x': str(__loader__)}",
        "return {'x': str(__builtins__['open'])}",
        "from builtins import open\nreturn {}",
        "from os import system\nsystem('id')\nreturn {}",
        "import os\nreturn {'x': os.popen('id').read()}",
        "import os\nos.execv('/bin/sh', [])\nreturn {}",
        "import os\nos.remove('/tmp/x')\nreturn {}",
        "import os\nreturn {'x': os.stat('/').st_ino}",
        "import os.path as path\nreturn {'x': path.os.system('id')}",
        "import json\nreturn {'x': json.codecs.open('/etc/passwd').read()}",
        "import re\nreturn {'x': str(re.sys)}",
        "import math\nreturn {'x': str(math.__loader__)}",
        "import typing\nreturn {'x': str(typing.sys.modules)}",
        "import collections\nreturn {'x': str(collections._sys.modules)}",
        "import pathlib\npathlib.Path('/tmp/operad-escape').mkdir()\nreturn {}",
        "import pathlib\npathlib.Path('/tmp/operad-escape').symlink_to('/etc')\nreturn {}",
        "import asyncio\nawait asyncio.create_subprocess_shell('id')\nreturn {}",
        "import urllib.request\nurllib.request.urlopen('http://127.0.0.1')\nreturn {}",
        "import operad\nreturn {}",
        "import pydantic_monty\nreturn {}",
        "import __main__\nreturn {'x': str(__main__)}",
        "load = __import__\nload('os')\nreturn {}",
        "exec('open(\"/etc/passwd\")')\nreturn {}",
        "return {'x': str(eval('main.__globals__'))}",
        "return {'x': str(eval('globals()'))}",
        "return {'x': str(str.join.__objclass__)}",
        "with open('/etc/passwd') as file: return {'x': file.read()}",
        "match main:\n    case object(__globals__=found): return {'x': str(found)}",
    ],
)
def test_a_snippet_reaches_nothing_outside(body, tmp_path):
    with pytest.raises(CodeError):
        run_code("def main():\n" + "\n".join(f"    {line}" for line in body.split("\n")), {}, SMALL)
    assert not Path("/tmp/operad-escape").exists()  # noqa: S108


@pytest.mark.parametrize(
    "body",
    [
        "while True:\n    try: main()\n    except RecursionError: pass",
        "return {'x': pow(3, 10**9)}",
        "return {'x': 7 ** 7 ** 7 ** 7}",
        "return {'x': max(range(10**11))}",
        "return {'x': len(str(list(range(10**7))))}",
        "values = {}\nfor i in range(10**8): values[i] = i",
        "return {'x': list(set(range(10**9)))}",
        "return {'x': int('9' * 10**6)}",
        "import json\njson.loads('[' * 10**6)",
        "import re\nre.compile('(' * 100_000)",
        "return {'x': bytearray(10**10)}",
        "values = []\nvalues.append(values)\nreturn {'x': values}",
        "class A:\n    def __repr__(self): return repr(self)\nreturn {'x': repr(A())}",
        "call = lambda f: f(f)\nreturn call(call)",
        "return {'x': 10**5000}",
        "return {'x': float('nan')}",
    ],
)
def test_a_bomb_of_a_snippet_hurts_itself_alone(body):
    with pytest.raises(CodeError):
        run_code("def main():\n" + "\n".join(f"    {line}" for line in body.split("\n")), {}, SMALL)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*(a|a)*$", "(a*)*(a*)*$", "(.*a){20}$"])
def test_a_pattern_that_looks_back_for_ever_ends(pattern):
    code = f"import re\ndef main(): return {{'x': bool(re.match({pattern!r}, 'a' * 40 + 'b'))}}"
    assert run_code(code, {}, CodeLimits(seconds=5)) == {"x": False}


# HTTP


@pytest.mark.parametrize(
    "host",
    """[::ffff:7f00:1] [0:0:0:0:0:ffff:127.0.0.1] [::ffff:0:127.0.0.1] [64:ff9b:1::7f00:1] [64:ff9b::a9fe:a9fe]
    [2001:0:7f00:1::] [2002:a9fe:a9fe::] [fe80::1%25lo] [::1%25lo] [fec0::1] [::ffff:a9fe:a9fe] [2001:db8::1] [100::1]
    198.18.0.1 192.0.0.192 192.0.2.1 0177.0x0.0.1 127.0.0.1. 2130706433. 127。1 0xa9fea9fe 2852039166 169.254.169.254.
    1.1.1.1@127.0.0.1 1.1.1.1:80@127.0.0.1 127.0.0.1#@1.1.1.1 127.0.0.1\\@1.1.1.1 127.0.0.1?@1.1.1.1""".split(),
)
async def test_odd_spellings_of_addresses_lead_to_no_private_one(host):
    with pytest.raises(FetchError, match=r"may not be fetched|no address|name or password before its host"):
        await fetch(f"http://{host}/", guard=Guard(timeout=20))


@pytest.mark.parametrize("method", ["GET / HTTP/1.1\r\nX: y\r\n\r\nGET", "GE T", "", "GET\0"])
async def test_a_method_smuggles_nothing(web, method):
    host = await web.serve(web.reply())
    with pytest.raises(FetchError, match="invalid request"):
        await fetch(host, method=method, guard=Guard((host.partition("//")[2],)))
    assert web.requests == []


@pytest.mark.parametrize(
    "headers", [{"a\r\nb": "c"}, {"a": "b\r\nc: d"}, {"a": "b\nc"}, {"a": "\0"}, {"a": "ü"}, {"": "a"}]
)
async def test_a_header_smuggles_nothing(web, headers):
    host = await web.serve(web.reply())
    with pytest.raises(FetchError, match="must be printable ASCII on one line"):
        await fetch(host, headers=headers, guard=Guard((host.partition("//")[2],)))
    assert web.requests == []


@pytest.mark.parametrize("path", ["/a\r\nX: y", "/a\n", "/\x00", "/a b\r\n\r\nGET /secret"])
async def test_an_address_smuggles_nothing(web, path):
    host = await web.serve(web.reply())
    guard = Guard((host.partition("//")[2],))
    try:
        await fetch(f"{host}{path}!", guard=guard)
    except FetchError as error:
        assert "is not a valid URL" in str(error)  # noqa: PT017 - either way is sound
    assert [request.headers.get("x") for request in web.requests] in ([], [None])


# The table


def test_every_threat_of_the_page_has_tests_that_are_there():
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    page = re.sub(
        r"^\| (?:capability|matter) \|(.*\n\|)*", "", page, flags=re.MULTILINE
    )  # tables of keys and of other servers
    rows = re.findall(r"^\| (?!threat \|)(.*?) \| ", page, re.MULTILINE)
    lines = (ROOT / "test" / "unit" / "threats.txt").read_text(encoding="utf-8").splitlines()[1:]
    listed = [line for line in lines if line and not line.startswith(("#", " "))]
    assert listed == rows
    assert [line for line, after in pairwise([*lines, ""]) if line in listed and "::" not in after] == []
    named = [line.strip().split("::") for line in lines if line.startswith(" ")]
    files = {path.name: path for path in (ROOT / "test" / "unit").rglob("test_*.py")}
    for file in {file for file, _ in named}:
        there = set(re.findall(r"^(?:async )?def (test_\w+)", files[file].read_text(encoding="utf-8"), re.MULTILINE))
        assert {name for each, name in named if each == file} <= there, file
