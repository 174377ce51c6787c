"""Changes of a YAML text: what stays the same keeps its text, and the result has exactly the wanted values."""

from copy import deepcopy

import pytest
from amounts import amount
from hypothesis import given, settings
from hypothesis import strategies as st

from operad.flows.formats.kept_text import edited
from operad.flows.formats.yaml_edit import NotKeptError, values_of
from operad.flows.formats.yaml_text import Alias, serialized, value_node

TEXT = """\
# top
a: &x # c
  # lead
  k: 1   # one

  # two
  l:
  - 1
  - &y
    # inner
    q: "2"
      # far in
  -
    z: |
      text
empty:
# b
b: *x
c: [1,
    2, # no
    3]"""


def changed(change, text=TEXT):
    values = values_of(text)
    change(values)
    return edited(text, values)


def test_a_text_without_a_change_is_the_same():
    assert edited(f"{TEXT}\n", values_of(TEXT)) == f"{TEXT}\n"
    assert values_of(TEXT)["b"] == Alias("x")


@pytest.mark.parametrize(
    ("change", "old", "new"),
    [
        (lambda v: v["a"].update(k=2), "k: 1   # one", "k: 2   # one"),
        (lambda v: v["a"].pop("k"), "  # lead\n  k: 1   # one\n", ""),
        (lambda v: v["a"].pop("l"), TEXT[TEXT.index("\n  # two") : TEXT.index("empty")], ""),
        (lambda v: v["a"]["l"].append("end"), "      text\n", "      text\n  - end\n"),
        (lambda v: v["a"]["l"].insert(0, {"n": "it's"}), "  l:\n", "  l:\n  - n: it's\n"),
        (lambda v: v["a"]["l"][1].update(q="a: b"), 'q: "2"', "q: 'a: b'"),
        (lambda v: v["a"]["l"][2].update(z="a\nb"), "z: |\n      text\n", "z: |-\n      a\n      b\n"),
        (lambda v: v["a"]["l"].pop(0), "  - 1\n", ""),
        (lambda v: v.update(empty=[]), "empty:", "empty: []"),
        (lambda v: v["c"].pop(1), "\n    2,", ""),
        (lambda v: v["c"].insert(1, "x"), "[1,", "[1,\n    x,"),
        (lambda v: v.update(b=Alias("y")), "*x", "*y"),
        (lambda v: v.update(b=[Alias("x"), 1]), "*x", "[*x, 1]"),
        (lambda v: v.update(d="a\n"), "    3]", "    3]\nd: |\n  a"),
    ],
)
def test_a_change_touches_its_own_lines_only(change, old, new):
    assert TEXT.count(old) == 1
    assert changed(change) == TEXT.replace(old, new) + "\n" * ("d:" in new)


def test_json_stays_json():
    text = '{\n  "a": [\n    {"b": "x"}\n  ],\n  "c": 1\n}\n'
    values = {"a": [{"b": "x"}, {"b": "two\nlines", "n": None}], "c": True}
    assert edited(text, values) == text.replace('"x"}', '"x"},\n    {"b": "two\\nlines", "n": null}').replace(
        "1", "true"
    )


def test_moved_keys_move_with_their_comments():
    text = "# first\na: 1 # one\n# second\nb: 2\n"
    assert edited(text, {"b": 2, "a": 1}) == "# first\n# second\nb: 2\na: 1 # one\n"  # the top is of the file
    assert edited("x:\n  # a\n  a: 1 # one\n  # b\n  b: 2\n", {"x": {"c": 3, "b": 2}}) == "x:\n  c: 3\n  # b\n  b: 2\n"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("[1]\n", {"a": 1}),
        ("a: &x {b: 1}\nc: *x\n", {"c": Alias("x")}),
        ("a: 1\n", {"a": Alias("x")}),
        ("a: 1\n", 3),
        ("", {"a": 1}),
    ],
)
def test_values_that_the_text_cannot_get_are_refused(text, values):
    with pytest.raises(NotKeptError):
        edited(text, values)


def test_a_text_of_several_lines_opens_the_brackets_around_it():
    text = "a:\n  e: {i: One., k: 1}  # c\n  f: &x {i: One.}\n"
    more = changed(lambda values: values["a"]["e"].update(i="- One.\n- Two."), text)
    assert more == "a:\n  e:  # c\n    i: |-\n      - One.\n      - Two.\n    k: 1\n  f: &x {i: One.}\n"
    more = changed(lambda values: values["a"]["f"].update(i="- One.\n- Two."), text)
    assert '  f: &x {i: "- One.\\n- Two."}\n' in more  # an anchor stays


texts = st.text("ab:#'\"\n &*-{}[],|>%@!é \t", max_size=12)
keys = st.text("ab:#' *-{},é", min_size=1, max_size=6)
scalars = st.one_of(texts, st.integers(-5, 5), st.booleans(), st.none(), st.floats(-5, 5))
values = st.recursive(
    scalars, lambda of: st.lists(of, max_size=4) | st.dictionaries(keys, of, max_size=4), max_leaves=20
)
roots = st.dictionaries(keys, values, min_size=1, max_size=5)


@settings(max_examples=amount(20, 120))
@given(roots, roots, st.data())
def test_any_values_become_any_others(before, after, data):
    text = serialized(value_node(before))
    mixed = {**after, **{key: value for key, value in before.items() if data.draw(st.booleans())}}
    assert values_of(edited(text, mixed)) == mixed


@settings(max_examples=amount(20, 120))
@given(roots, st.data())
def test_lists_and_mappings_change_at_any_place(before, data):
    text = serialized(value_node(before))
    after = deepcopy(before)
    holder = after
    while isinstance(holder, dict | list) and holder:
        key = data.draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
        if not isinstance(holder[key], dict | list) or data.draw(st.booleans()):
            holder[key] = data.draw(values)
            break
        holder = holder[key]
    assert values_of(edited(text, after)) == after


def test_a_text_of_nothing_but_space_can_be_changed():
    text = serialized(value_node({"a": [" \n", "b"]}))
    assert text == 'a:\n- " \\n"\n- b\n'
    assert values_of(edited(text, {"a": ["c\n", "b"]})) == {"a": ["c\n", "b"]}
