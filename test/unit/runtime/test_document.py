import pytest

from operad.flows.formats.yaml_text import read_yaml
from operad.runtime.values.document import MAX_DEPTH, dotted, parse_document, read_document
from operad.runtime.values.errors import InputError, InvalidError


def issues(text):
    with pytest.raises(InvalidError) as caught:
        parse_document(text, "f.yaml")
    return [(issue.code, issue.where) for issue in caught.value.issues]


def test_values_know_their_lines():
    document = parse_document("a:\n  - x: 1\n    y: 2\n  - 3\n", "f.yaml")
    assert document.data == {"a": [{"x": 1, "y": 2}, 3]}
    assert document.where(("a", 0, "y")) == "f.yaml:3 a[0].y"
    assert document.where(("a", 0, "missing")) == "f.yaml:2 a[0].missing"


def test_an_alias_is_the_object_it_stands_for_and_has_its_name():
    document = parse_document("a: &first {x: 1}\nb: [*first]\n", "f.yaml")
    assert document.data["b"][0] is document.data["a"]
    assert document.anchors[id(document.data["a"])] == "first"


def test_dotted_paths_read_like_code():
    assert dotted(("experts", 0, "workflow", 1, 2)) == "experts[0].workflow[1][2]"


def test_a_tab_is_named():
    with pytest.raises(InvalidError, match=r"f.yaml:2:1: a tab; YAML indents with spaces only"):
        parse_document("a:\n\tb: 1\n", "f.yaml")


def test_an_undefined_alias_gets_a_suggestion():
    with pytest.raises(InvalidError, match=r"there is no anchor &serch \(did you mean 'search'\?\)"):
        parse_document("a: &search 1\nb: *serch\n", "f.yaml")


def test_duplicate_keys_are_all_found():
    assert issues("a: 1\na: 2\nb: {c: 1, c: 2}\n") == [("duplicate-key", "f.yaml:2"), ("duplicate-key", "f.yaml:3")]


def test_python_tags_are_refused():
    assert issues("a: !!python/object/apply:os.system ['true']\n") == [("tag", "f.yaml:1")]


def test_an_alias_bomb_is_refused_without_being_expanded():
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)
    )
    assert issues(bomb) == [("size", "f.yaml:6")]


def test_a_value_that_contains_itself_is_refused():
    assert issues("a: &a [*a]\n") == [("cycle", "f.yaml:1")]


@pytest.mark.parametrize("depth", [MAX_DEPTH + 5, 100_000])
def test_deep_nesting_is_refused(depth):
    assert issues("a: " + "[" * depth)[0][0] in ("depth", "yaml")
    assert issues("a: " + "[" * depth + "]" * depth)[0][0] == "depth"


@pytest.mark.parametrize(("text", "words"), [("", "is empty"), ("# only a comment\n", "is empty")])
def test_an_empty_file_is_said_to_be_empty(text, words):
    with pytest.raises(InputError, match=words):
        parse_document(text, "f.yaml")


def test_a_list_is_not_a_configuration():
    assert issues("- a\n- b\n") == [("shape", "f.yaml")]


def test_a_missing_file_gets_a_suggestion(tmp_path):
    (tmp_path / "expert.yaml").write_text("a: 1")
    with pytest.raises(InputError, match=r"no such file \(did you mean 'expert.yaml'\?\)"):
        read_document(tmp_path / "exper.yaml")


def test_binary_and_foreign_encodings_are_named(tmp_path):
    file = tmp_path / "f.yaml"
    file.write_bytes(b"a: \x00\x01")
    with pytest.raises(InputError, match="is binary"):
        read_document(file)
    file.write_bytes("a: 1\nb: ä".encode("latin-1"))
    with pytest.raises(InputError, match=r"f.yaml:2: is not UTF-8 text"):
        read_document(file)


def test_merge_keys_are_refused_with_what_to_do():
    with pytest.raises(
        InvalidError, match=r"\[key\] f.yaml:2: merge keys \(<<\) are not supported; write the keys themselves"
    ):
        parse_document("a: &a {x: 1}\nb: {<<: *a}\n", "f.yaml")


def test_a_number_of_thousands_of_digits_is_refused():
    assert issues("a: 1\nb: " + "9" * 5000 + "\n") == [("tag", "f.yaml:2")]


def test_items_of_a_list_have_the_lines_where_they_begin():
    document = parse_document("a:\n  - x:\n      y: 1\n  - [2,\n     3]\n", "f.yaml")
    assert [document.line(path) for path in [("a", 0), ("a", 0, "x", "y"), ("a", 1), ("a", 1, 1)]] == [2, 3, 4, 5]


def test_an_item_that_is_an_alias_has_the_line_of_its_anchor():
    assert parse_document("a: &first\n  x: 1\nb:\n  - *first\n", "f.yaml").line(("b", 0, "x")) == 2


def test_a_second_document_is_refused():
    assert issues("a: 1\n---\nb: 1\n") == [("yaml", "f.yaml:2")]


def test_all_readers_tell_of_a_duplicate_key_in_the_same_words():
    with pytest.raises(InvalidError, match="duplicate key 'a'"):
        parse_document("a: 1\na: 2\n", "f.yaml")
    with pytest.raises(InvalidError, match="line 2: duplicate key 'a'"):
        read_yaml(b"a: 1\na: 2\n", "f.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a: 1\nb: {c: 1,\n  d: 2\ne: 3\n",
            ":2:4: the { that opens here has no , or } before line 4, column 2; put a text that contains { or } in "
            "quotes: 'b: {c: 1,'",
        ),
        ("a: [1, 2\nb: 3\n", ":1:4: the [ that opens here has no , or ] before line 2, column 2; put"),
        ("a: [", ":2:1: a [ or { is not closed before the end"),
        (
            "a:\n  - b: 1\n   c: 2\n",
            ":3:4: a list item is expected: begin it with -, or indent this line as the keys of the item above: 'c: 2'",
        ),
        ("- a\nb: 1\n", ":2:1: a list item is expected: begin it with -, or indent"),
        ("a: 1\n- b\n", ":2:1: a key is expected: indent a list item as the items above, or put it below the key of"),
        ("a: |5\n  b\n", ":2:3: a key is expected: write `key: value`, or indent a text below its key: 'b'"),
        (": a\n", ":1:1: a key is expected: write `key: value`"),
        ("a: [\n  b\n]\n]\n", ":4:1: no bracket is open before this ]: ']'"),
        ("a:\n  b: 1\n c: 2\n", ":3:2: wrong indentation: indent this line as the keys above: 'c: 2'"),
        (
            "a:\n- b: 1\n   c: 2\n",
            ":3:5: wrong indentation: indent this line as the key above, or put a text of several lines in quotes",
        ),
        ("a\n  - b: 1\n", ":2:6: the text above continues in this line; indent a key as the keys above it, and write"),
        ("a:b\nc: 1\n", ":2:2: the text above continues in this line; indent a key as the keys above it, and write"),
        ("--- a: 1\n", ":1:6: a key begins in a line of its own"),
        ("a: 1\nb:2\nc: 3\n", ":2:1: no `: ` in this line; write `key: value` with a space, and indent a text of"),
        ("a: 1\nno key\nc: 3\n", ":2:1: no `: ` in this line; write `key: value` with a space, and indent a text of"),
        ("a:\n  -b\n  -c: 1\n", ":3:5: no space after the - of a list item: '-c: 1'"),
        ("a: - b\n", ":1:4: a list begins in a line of its own; write the - below its key: 'a: - b'"),
        ("a: b: c\n", ":1:5: a second `: ` in one line; put a text that contains `: ` in quotes: 'a: b: c'"),
        ("a: [b: c: d]\n", ":1:4: a second `: ` in one entry; write a , between entries, or put a text that contains"),
        ("a: " + "b " * 2000 + "c: d\n", ":1:4005: a second `: ` in one line; put a text that contains `: ` in quotes"),
        ("k" * 2000 + ": 1\n", ":1:2001: a key has at most 1,024 characters"),
        ('- "a" b\n', ":1:7: the quoted text ends before 'b'; put the whole text in quotes, and double ' in '…'"),
        ("a: 'it's'\n", ":1:8: the quoted text ends before \"s'\"; put the whole text in quotes, and double ' in '…'"),
        (
            'a: "b\nc: "d"\n',
            ":2:5: the quoted text ends before 'd\"'; put the whole text in quotes, and double ' in '…', or "
            "close a quote in a line above",
        ),
        ('a:\t"b" c\n', ":1:8: the quoted text ends before 'c'; put the whole text in quotes, and double ' in '…'"),
        ('{"a": 1\n "b": 2}\n', ":2:5: the entry ends before ': 2}'; write a , between entries"),
        (
            '{"a": 1, "b" 2}\n',
            ":1:14: the quoted text ends before '2}'; put the whole text in quotes, and double ' in '…', or "
            "write a , or : after it",
        ),
        ("a: [b, , c]\n", ":1:8: there is no entry before this ,: 'a: [b, , c]'"),
        ("a: [\n\t{b: c\n]\n", ":2:2: the { that opens here has no , or } before line 3, column 1"),
        ("- a\n-b\n", ":2:1: no space after the - of a list item: '-b'"),
        ("a: [b] c\n", ":1:8: the brackets end before 'c'; put a text that begins with [ or { in quotes: 'a: [b] c'"),
        ("a: &b &c d\n", ":1:7: the value ends before '&c d'; put the whole text in quotes: 'a: &b &c d'"),
        ("a: 'b\n", ':1:4: the quote that opens here is not closed: "a: \'b"'),
        ("a:\n\tb: 1\n", ":2:1: a tab; YAML indents with spaces only: 'b: 1'"),
        ("a: @b\n", ":1:4: a text that begins with @ must be in quotes: 'a: @b'"),
        ("a: , b\n", ":1:4: a text that begins with , must be in quotes: 'a: , b'"),
        ("a: !b!c d\n", ":1:4: a text that begins with ! must be in quotes: 'a: !b!c d'"),
        ("%TAG a\n---\n", ":1:6: a text that begins with % must be in quotes: '%TAG a'"),
        ("%a\n", ":1:3: a text that begins with % must be in quotes: '%a'"),
        (
            "a: > b\n",
            ":1:6: > and | end their line; write the text below, indented, or put a text that begins with them",
        ),
        (
            'a: "C:\\Users"\n',
            r":1:9: a \ in double quotes begins an escape; write \\ for a backslash, or use single quotes",
        ),
        (
            "a: &お金\n  b: 1\n",
            "anchors take A–Z, a–z, 0–9, _ and -; write `name: お金`, or put a text that begins with &",
        ),
        ("a: [*b.c, 1]\n", "anchors take A–Z, a–z, 0–9, _ and -; write `name: b.c`, or put a text that begins with *"),
        ("a: *\n", ":1:5: anchors take A–Z, a–z, 0–9, _ and -; put a text that begins with * in quotes: 'a: *'"),
        ('"a" 1\n', ":1:5: a second value after the end of the first; write `key: value`: '\"a\" 1'"),
        ("a: 1\nb: \x00\n", ":2: the character U+0000 is not allowed in YAML; remove it: 'b: \\x00'"),
        ("a: \ud800\n", ":1: the character U+D800 is not allowed in YAML; remove it: 'a: \\ud800'"),
    ],
)
def test_a_syntax_fault_has_its_line_and_its_usual_cause(text, message):
    with pytest.raises(InvalidError) as caught:
        parse_document(text, "f.yaml")
    issue = caught.value.issues[0]
    assert f"{issue.where}: {issue.message}".startswith(f"f.yaml{message}" if message[0] == ":" else "f.yaml")
    assert message in f"{issue.where}: {issue.message}"
