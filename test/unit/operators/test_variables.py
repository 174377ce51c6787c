"""Variables: how they are named, what they are as text, of what type they are."""

import math
from uuid import NAMESPACE_URL, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operad.operators.variables import (
    MAX_SHOWN_VALUE,
    Selector,
    Text,
    Variables,
    VariableType,
    as_text,
    fits,
    part_type,
    plain,
    selectors_in,
    short_json,
    type_of,
)
from operad.runtime import FileDescriptor, WorkflowMessage

T = VariableType


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "notes.v2.txt"
    path.write_bytes(b"seven b")
    return FileDescriptor.of(path)


def variables(**nodes):
    return Variables([WorkflowMessage(operator_id=name.strip("_"), outputs=outputs) for name, outputs in nodes.items()])


# References


@pytest.mark.parametrize(
    ("text", "node", "variable"),
    [
        ("{{#3.text#}}", "3", "text"),
        ("{{#'3'.text#}}", "3", "text"),
        ('{{#"5".output#}}', "5", "output"),
        ("{{#5-2.text#}}", "5-2", "text"),
        ("{{#'5-2'.text#}}", "5-2", "text"),
        ("{{#5-2-1.text#}}", "5-2-1", "text"),
        ("{{# 3.text #}}", "3", "text"),
        ("{{#3.file.name#}}", "3", "file.name"),
        ("{{#my node.text#}}", "my node", "text"),
        ("{{#3.結果#}}", "3", "結果"),
    ],
)
def test_a_reference_is_read_however_it_is_spelt(text, node, variable):
    said = Text(f"Say {text}!")
    assert said.selectors == [Selector(variable, node)]
    assert said.misshapen == []
    assert Variables([]).text(said) == "Say !"


@pytest.mark.parametrize(
    "text",
    ["{{#3#}}", "{{#3.#}}", "{{#.text#}}", "{{#'3.text#}}", "{{#3.te xt#}}", "{{#3.text}}", "{{#a#[0]}}", "{{#}}"],
)
def test_what_only_looks_like_a_reference_stays_and_is_misshapen(text):
    said = Text(f"Say {text}!")
    assert (said.selectors, said.misshapen) == ([], [text])
    assert Variables([]).text(said) == f"Say {text}!"


@pytest.mark.parametrize("text", ["", "{{ x }}", "{{3.text}}", "{#3.text#}", "{{# 3.text", "#}}"])
def test_what_is_no_reference_stays(text):
    assert (Text(text).selectors, Text(text).misshapen) == ([], [])
    assert Variables([]).text(Text(text)) == text


def test_several_references_stand_in_their_order():
    text = Text("{{#1.a#}}{{#2.b#}} {{#1.a#}}")
    assert text.selectors == [("a", "1"), ("b", "2"), ("a", "1")]
    assert variables(_1={"a": "x"}, _2={"b": 2}).text(text) == "x2 x"


def test_what_a_value_says_is_no_reference_in_turn():
    assert variables(_1={"a": "{{#1.b#}}", "b": "secret"}).text(Text("{{#1.a#}}")) == "{{#1.b#}}"


# Values


def test_parts_of_objects_lists_and_files_are_named_with_dots(file):
    held = {"o": {"a": {"b": 1}}, "xs": [{"n": "first"}, {"n": "second"}], "f": file, "a.b": "dotted"}
    there = variables(_1=held)
    got = {name: there.get(Selector(name, "1")) for name in ("o.a.b", "xs.1.n", "f.name", "f.type", "f.size", "a.b")}
    assert got == {
        "o.a.b": 1,
        "xs.1.n": "second",
        "f.name": "notes.v2.txt",
        "f.type": "document",
        "f.size": 7,
        "a.b": "dotted",
    }
    assert there.get(Selector("f.extension", "1")) == ".txt"
    assert there.get(Selector("f.mime_type", "1")) == "text/plain"


@pytest.mark.parametrize(
    ("path", "name", "extension"),
    [("/a/notes.txt", "notes", ".txt"), ("/a/notes", "notes.md", ".md"), ("/a/notes", "notes", "")],
)
def test_the_extension_of_a_file_is_that_of_its_path_or_else_of_its_name(path, name, extension):
    file = FileDescriptor(path=path, name=name, size=1, mime_type="text/plain")
    assert variables(_1={"f": file}).get(Selector("f.extension", "1")) == extension


@pytest.mark.parametrize(
    "name", ["zz", "o.zz", "o.a.zz", "xs.2", "xs.n", "xs.²", f"xs.{'9' * 5000}", "s.zz", "f.zz", "none.zz"]
)
def test_a_part_that_is_not_there_is_none(file, name):
    there = variables(_1={"o": {"a": 1}, "xs": [1, 2], "s": "text", "f": file, "none": None})
    assert there.get(Selector(name, "1")) is None
    assert there.get(Selector(name, "2")) is None
    assert Selector(name, "1") not in there


def test_a_part_that_is_none_is_there():
    there = variables(_1={"o": {"a": None}, "xs": [None]})
    assert Selector("o.a", "1") in there
    assert Selector("xs.0", "1") in there


def test_a_variable_is_there_when_its_node_ran():
    there = variables(_1={"x": None})
    assert Selector("x", "1") in there
    assert Selector("x", "2") not in there


def test_the_last_of_those_that_assigned_a_variable_anew_counts():
    messages = [
        WorkflowMessage(operator_id="loop", outputs={"i": 0}),
        WorkflowMessage(operator_id="first", outputs={"i": 1}),
        WorkflowMessage(operator_id="third", outputs={}),
    ]
    i = Selector("i", "loop")
    assert Variables(messages, {i: ["first", "second", "third"]}).get(i) == 1
    assert Variables(messages).get(i) == 0


# Text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("", ""),
        ("figs", "figs"),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (3, "3"),
        (3.0, "3"),
        (2.5, "2.5"),
        (-0.1, "-0.1"),
        (1e300, "1e+300"),
        ([], ""),
        ((), ""),
        ({}, "{}"),
        (["a", "ü"], '["a", "ü"]'),
        ([1, 2.5, None, True], "[1, 2.5, null, true]"),
        ({"a": [1]}, '{"a": [1]}'),
    ],
)
def test_a_value_as_text(value, text):
    assert as_text(value) == text


def test_files_as_text_are_named_and_inside_of_values_described(file):
    described = {
        "type": "document",
        "name": "notes.v2.txt",
        "size": 7,
        "extension": ".txt",
        "mime_type": "text/plain",
        "transfer_method": "local_file",
        "url": file.path.as_uri(),
        "remote_url": file.path.as_uri(),
        "related_id": str(uuid5(NAMESPACE_URL, file.path.as_uri())),
        "filename": "notes.v2.txt",
    }
    assert as_text(file) == "notes.v2.txt"
    assert plain({"all": [file]}) == {"all": [described]}
    assert as_text([file, file]) == "notes.v2.txt, notes.v2.txt"
    assert '"name": "notes.v2.txt"' in as_text({"all": [file]})


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.png", "image"),
        ("a.webp", "image"),
        ("a.mp3", "audio"),
        ("a.mp4", "video"),
        ("a.pdf", "document"),
        ("a", "document"),
    ],
)
def test_the_type_of_a_file(tmp_path, name, kind):
    (tmp_path / name).write_bytes(b"")
    assert plain(FileDescriptor.of(tmp_path / name))["type"] == kind


def test_a_value_is_shown_shortened():
    assert short_json("figs") == '"figs"'
    assert short_json("x" * 500) == '"' + "x" * (MAX_SHOWN_VALUE - 1) + "… (502 characters)"


# Types


FITTING = {
    T.STRING: ["", "a"],
    T.NUMBER: [0, 2.5, -(10**30)],
    T.BOOLEAN: [True],
    T.OBJECT: [{}, {"a": 1}],
    T.ARRAY_STRING: [[], ["a"], ("a",), ["a", None]],
    T.ARRAY_NUMBER: [[], [1, 2.5]],
    T.ARRAY_BOOLEAN: [[], [True]],
    T.ARRAY_OBJECT: [[], [{}]],
    T.ARRAY_FILE: [[]],
    T.ARRAY: [[], [1, "a"]],
}
NOT = {
    T.STRING: [1, ["a"]],
    T.NUMBER: ["1", True, math.inf, math.nan, 10**400, -(10**400), [1]],
    T.BOOLEAN: [1, "true"],
    T.OBJECT: [[], "{}"],
    T.FILE: ["a.png", {}],
    T.ARRAY_STRING: ["a", [1], {"a": 1}],
    T.ARRAY_NUMBER: [[True], ["1"], 1],
    T.ARRAY_BOOLEAN: [[1]],
    T.ARRAY_OBJECT: [["a"]],
    T.ARRAY_FILE: [["a.png"]],
    T.ARRAY: ["a", {}],
}


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, values in FITTING.items() for value in values])
def test_a_value_of_its_type_fits(kind, value):
    assert fits(value, kind)
    assert fits(value, T.ANY)


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, values in NOT.items() for value in values])
def test_a_value_of_another_type_does_not_fit(kind, value):
    assert not fits(value, kind)


@pytest.mark.parametrize("kind", list(T))
def test_what_is_not_there_fits_every_type(kind):
    assert fits(None, kind)


def test_files_fit(file):
    assert fits(file, T.FILE)
    assert fits([file], T.ARRAY_FILE)
    assert not fits([file], T.ARRAY_STRING)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "nothing"),
        ("a", "string"),
        (1, "number"),
        (True, "boolean"),
        ({}, "object"),
        ([1], "array[number]"),
        ([1, "a"], "array"),
        (10**400, "no finite number"),
        (math.nan, "no finite number"),
    ],
)
def test_the_type_of_a_value_has_a_name(value, name):
    assert type_of(value) == name


@pytest.mark.parametrize(
    ("kind", "item", "array"),
    [
        (T.STRING, None, T.ARRAY_STRING),
        (T.FILE, None, T.ARRAY_FILE),
        (T.ANY, None, T.ARRAY),
        (T.ARRAY_STRING, T.STRING, T.ARRAY_STRING),
        (T.ARRAY, T.ANY, T.ARRAY),
    ],
)
def test_items_and_arrays(kind, item, array):
    assert (kind.item, kind.array) == (item, array)


@pytest.mark.parametrize(
    ("kind", "wanted", "may"),
    [
        (T.STRING, T.STRING, True),
        (T.STRING, T.NUMBER, False),
        (T.ANY, T.FILE, True),
        (T.FILE, T.ANY, True),
        (T.ARRAY, T.ARRAY_FILE, True),
        (T.ARRAY_STRING, T.ARRAY, True),
        (T.ARRAY_STRING, T.ARRAY_NUMBER, False),
        (T.STRING, T.ARRAY, False),
    ],
)
def test_what_may_be_what(kind, wanted, may):
    assert kind.may_be(wanted) is may


@pytest.mark.parametrize(
    ("kind", "path", "part"),
    [
        (T.FILE, "type", T.STRING),
        (T.FILE, "size", T.NUMBER),
        (T.FILE, "kind", None),
        (T.OBJECT, "a.b", T.ANY),
        (T.ARRAY_OBJECT, "0", T.ANY),
        (T.ANY, "a", T.ANY),
        (T.STRING, "a", None),
        (T.NUMBER, "", T.NUMBER),
    ],
)
def test_the_types_of_parts(kind, path, part):
    assert part_type(kind, path) is part


def test_variables_are_found_however_deep_with_their_place():
    value = [{"a": Selector("x", "1")}, (Text("{{#2.y#}}"), "{{#3.z#}}")]
    assert list(selectors_in(value, "p")) == [("p[0].a", ("x", "1"), False), ("p[1][0]", ("y", "2"), True)]


@given(st.text())
def test_no_text_makes_it_raise(text):
    said = Text(text)
    assert isinstance(Variables([]).text(said), str)
    assert all(each in text for each in said.misshapen)
