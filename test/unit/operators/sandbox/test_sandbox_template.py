import json
import threading
import tracemalloc
from dataclasses import replace
from pprint import pformat

import pytest

from operad.operators.sandbox.template import (
    TemplateError,
    TemplateLimits,
    check_template,
    names_of,
    render_template,
)
from operad.runtime.values.errors import InputError

SMALL = TemplateLimits(seconds=0.3, output_chars=100_000, memory_bytes=20_000_000)
PATIENT = replace(SMALL, seconds=60)  # on a busy machine, too, another limit is reached first


def failure(template, variables=None, limits=SMALL):
    with pytest.raises(TemplateError) as caught:
        render_template(template, variables or {}, limits)
    return caught.value


ROWS = [{"name": "x", "n": 1}, {"name": "y", "n": 2}]


@pytest.mark.parametrize(
    ("template", "rendered"),
    [
        ("{{ text }} {{ none }}", "<a> None"),
        ("[{{ missing }}{{ missing.a.b }}{{ missing['a'][0] }}{{ rows[0].what }}{{ rows[9].what }}]", "[]"),
        ("{% for row in missing %}x{% else %}none{% endfor %}", "none"),
        (
            "{% for r in rows %}{{ loop.index }}/{{ loop.length }}:{{ r.name }}{{ ',' if not loop.last }}{% endfor %}",
            "1/2:x,2/2:y",
        ),
        (
            "{% for r in rows %}{{ loop.revindex }}{{ loop.first }}{{ loop.cycle('a', 'b') }}{% endfor %}",
            "2Truea1Falseb",
        ),
        ("{% for r in rows if r.n > 1 %}{{ r.name }}{{ loop.length }}{% endfor %}", "y1"),
        ("{% for k, v in rows[0].items() %}{{ k }}={{ v }};{% endfor %}", "name=x;n=1;"),
        ("{% for r in tree recursive %}{{ r.n }}{% if r.of %}({{ loop(r.of) }}){% endif %}{% endfor %}", "1(23)"),
        (
            "{% macro m(a, b=2) %}[{{ a }}{{ b }}{{ caller() if caller }}]{% endmacro %}{{ m(1) }}{% call m(3) %}z{% endcall %}",
            "[12][32z]",
        ),
        ("{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, a=2) }}", "(1,){'a': 2}"),
        ("{% set s = namespace(t='') %}{% for i in range(3) %}{% set s.t = s.t ~ i %}{% endfor %}{{ s.t }}", "012"),
        ("{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{% set j = joiner() %}{{ j() }}{{ j() }}", "ab, "),
        ("{% filter upper %}a{{ text }}{% endfilter %}{% set z %}q{{ 1 }}{% endset %}{{ z }}", "A<A>q1"),
        ("{% block b %}q{% endblock %}{{ self.b() }}{% with a = 1 %}{{ a }}{% endwith %}", "qq1"),
        ("{{ rows | map(attribute='name') | join(', ') }} {{ rows | sum(attribute='n') }}", "x, y 3"),
        ("{{ rows | selectattr('n', 'gt', 1) | map(attribute='name') | list }} {{ rows | length }}", "['y'] 2"),
        ("{% for g in rows | groupby('n') %}{{ g.grouper }}{{ g.list | length }}{% endfor %}", "1121"),
        (
            "{{ rows[0] | tojson }} {{ text | e }} {{ rows[0] | dictsort }}",
            "{\"n\": 1, \"name\": \"x\"} &lt;a&gt; [('n', 1), ('name', 'x')]",
        ),
        ("{{ '%s-%03d' | format('a', 2) }} {{ '%.1f' % 3 }} {{ '{:>3}{x}'.format(1, x=2) }}", "a-002 3.0   12"),
        (
            "{{ text.upper() }}{{ '-'.join(['a', 'b']) }}{{ 'a b'.split() }}{{ 'aa'.replace('a', 'b') }}",
            "<A>a-b['a', 'b']bb",
        ),
        (
            "{{ [3, 1] | sort }}{{ [1, 2, 3] | batch(2) | list }}{{ 'abc' | reverse }}{{ ' a ' | trim }}",
            "[1, 3][[1, 2], [3]]cbaa",
        ),
        (
            "{{ 7 // 2 }} {{ 2 ** 10 }} {{ 7 % 2 }} {{ 'ab' * 2 }} {{ [1] + [2] }} {{ 3.14159 | round(2) }}",
            "3 1024 1 abab [1, 2] 3.14",
        ),
        (
            "{{ text ~ 1 ~ missing }}{{ 'x' | default('y') }}{{ missing | default('y') }}{{ rows[0:1] | length }}",
            "<a>1xy1",
        ),
        ("{% raw %}{{ x }}{% endraw %}{# c #}{{- ' a' }}", "{{ x }} a"),
        ("{{ odd.update }}{{ odd._id }}{{ odd.pop }}{{ odd['keys'] }}", "12"),
    ],
)
def test_a_template_renders_as_jinja_does(template, rendered):
    variables = {
        "text": "<a>",
        "none": None,
        "rows": ROWS,
        "tree": [{"n": 1, "of": [{"n": 2}, {"n": 3}]}],
        "odd": {"update": 1, "_id": 2},
    }
    assert render_template(template, variables) == rendered


def test_two_renderings_do_not_know_of_each_other():
    template = "{% for i in range(n) %}{% set x = i %}{{ i }}{% endfor %}"
    results = {}
    threads = [
        threading.Thread(target=lambda n=n: results.update({n: render_template(template, {"n": n})})) for n in range(9)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: "".join(map(str, range(n))) for n in range(9)}


def test_a_template_does_not_change_its_variables():
    variables = {"rows": [1]}
    failure("{{ rows.append(2) }}", variables)
    failure("{{ rows.clear() }}", variables)
    assert variables == {"rows": [1]}


def repr_of(value):
    return type(value).__name__


@pytest.mark.parametrize("value", [object(), {1}, b"x", 1j, [{"a": object()}], 1 << 20_000], ids=repr_of)
def test_a_variable_that_json_does_not_have_is_wrong_input(value):
    with pytest.raises(InputError, match="variable 'a' of a template"):
        render_template("", {"a": value})


def test_variables_larger_than_the_memory_are_wrong_input():
    with pytest.raises(InputError, match="too large: it makes more than 20,000,000 bytes"):
        render_template("", {"a": [1] * 10**6}, PATIENT)


# What goes wrong


def test_an_error_is_told_with_its_line():
    error = failure("a\n{% for i in [1] %}\n{{ 1 / 0 }}\n{% endfor %}")
    assert str(error) == "the template failed at line 3, `{{ 1 / 0 }}`: ZeroDivisionError: division by zero"
    assert error.line == 3


def test_wrong_syntax_is_told_with_its_line():
    error = failure("a\n{{ x")
    assert error.line == 2
    assert "`{{ x`: unexpected end of template" in str(error)


def test_an_unknown_filter_is_told_with_the_nearest():
    assert "No filter named 'uper' (did you mean 'upper'?)" in str(failure("{{ x | uper }}"))
    assert "No test named 'definedd' (did you mean 'defined'?)" in str(failure("{{ x is definedd }}"))


def test_a_method_in_the_place_of_a_key_is_explained():
    assert "'items' is a method here: write ['items']" in str(failure("{{ x.items }}", {"x": {"items": 1}}))
    assert "'items' is a method here" in str(failure("{% for i in x.items %}{% endfor %}", {"x": {}}))
    assert render_template("{{ x['items'] }}", {"x": {"items": 1}}) == "1"


def test_what_comes_one_by_one_is_not_shown_as_an_object():
    assert "add |list" in str(failure("{{ [1] | map('string') }}"))


def test_a_check_tells_of_references_and_other_templates():
    issues = check_template("{{#3.x#}}\n{{#'1'.y#}}")
    assert [(issue.code, issue.where) for issue in issues] == [("reference", "line 1"), ("reference", "line 2")]
    issues = check_template("{% include 'x' %}\n{% import 'y' as z %}")
    assert [issue.where for issue in issues] == ["line 1", "line 2"]
    (issue,) = check_template("\n{% for x in y %}")
    assert issue.where == "line 2"
    assert check_template("{{ x }}") == []


def test_the_names_that_it_uses_are_those_that_it_does_not_set():
    template = "{{ b.x }}{% for x in a %}{{ x }}{{ loop.index }}{% endfor %}{% set z = range(n) %}{{ z }}"
    assert names_of(template) == ("a", "b", "n")


# Bounds

GROW = "{% set s = namespace(a=START) %}{% for i in range(60) %}{% set s.a = STEP %}{% endfor %}{{ s.a | string }}"


def nested(value, levels):
    for _ in range(levels):
        value = [value]
    return value


def grow(step, start="'x'"):
    return GROW.replace("START", start).replace("STEP", step)


@pytest.mark.parametrize(
    ("template", "limit"),
    [
        ("{% for i in r %}{% for j in r %}{% for k in r %}{% endfor %}{% endfor %}{% endfor %}", "the limit seconds"),
        ("{% for i in r %}{% for j in r %}{{ loop.length if 0 }}{% endfor %}{% endfor %}", "the limit seconds"),
        ("{% for i in r %}{% for j in r if false %}{% endfor %}{% endfor %}", "the limit seconds"),
        ("{% for i in r %}{% if r | map('string') | select('eq', 'x') | list %}{% endif %}{% endfor %}", "limit"),
        ("{% for i in r %}{{ r | sort | unique | list | first }}{% endfor %}", "limit"),
        ("{% for i in range(100000) %}{% for j in range(100000) %}abcdefgh{% endfor %}{% endfor %}", "output_chars"),
        ("{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}", "limit seconds"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested too deeply"),
        ("{% for i in [[1]] recursive %}{{ loop([[1], [1]]) }}{% endfor %}", "nested too deeply"),
        ("{% set q %}{% for i in r %}" + "x" * 10_000 + "{% endfor %}{% endset %}", "memory_bytes"),
        ("{% filter upper %}{% for i in r %}" + "x" * 10_000 + "{% endfor %}{% endfilter %}", "memory_bytes"),
        ("{{ 'a' * 10**10 }}", "memory_bytes"),
        ("{{ [1] * 10**10 }}", "memory_bytes"),
        ("{{ 10**10 * 'a' }}", "memory_bytes"),
        ("{{ (9**9)**(9**9) }}", "too large"),
        ("{{ 10**(10**10) }}", "too large"),
        ("{{ range(10**9) }}", "Range too big"),
        ("{{ lipsum(10**9) }}", "'lipsum' is undefined"),
        ("{{ 'a' | center(10**10) }}", "too wide"),
        ("{{ 'a'.center(10**10) }}", "too wide"),
        ("{{ 'a'.ljust(width=10**10) }}", ""),
        ("{{ 'a'.rjust(10**10) }}", "too wide"),
        ("{{ 'a'.zfill(10**10) }}", "too wide"),
        ("{{ 'a\t'.expandtabs(10**10) }}", "too wide"),
        ("{% set f = 'a'.center %}{{ f(10**10) }}", "too wide"),
        ("{{ 'a' | indent(10**10, true) }}", "too wide"),
        ("{{ 'a' | indent('x' * 10**10, true) }}", "memory_bytes"),
        ("{{ '%1000000000d' | format(1) }}", "too wide"),
        ("{{ '%1000000000d' % 1 }}", "too wide"),
        ("{{ '%.1000000000f' % 1 }}", "too wide"),
        ("{{ '%*d' % (10**9, 1) }}", "cannot be '*'"),
        ("{{ ('%9999d' * 100000) % 1 }}", "memory_bytes"),
        ("{{ '%((x))999999999d' % {'(x)': 1} }}", "cannot contain '('"),
        ("{{ ('%(x)s' * 1000) % {'x': 'a' * 100000} }}", "memory_bytes"),
        ("{{ '{:>1000000000}'.format(1) }}", "too wide"),
        ("{{ '{:{}}'.format(1, 10**9) }}", "too wide"),
        ("{{ ('{0}' * 1000).format('a' * 100000) }}", "memory_bytes"),
        ("{{ '{x:>1000000000}'.format_map({'x': 1}) }}", "too wide"),
        ("{{ ('a' * 1000) | replace('', 'b' * 100000) }}", "memory_bytes"),
        ("{{ ('a' * 1000).replace('a', 'b' * 100000) }}", "memory_bytes"),
        ("{{ (['b'] * 1000) | join('a' * 100000) }}", "memory_bytes"),
        ("{{ ('a' * 100000).join(['b'] * 1000) }}", "memory_bytes"),
        ("{{ ('a' * 100000).join(['b'] * 1000 | map('upper')) }}", ""),
        ("{{ 'aaaa' | wordwrap(1, wrapstring='b' * 10**7) }}", "memory_bytes"),
        ("{{ ('a' * 1000000) | wordwrap(1) }}", "memory_bytes"),
        ("{{ (' ' * 1000000) | wordwrap(1) }}", "memory_bytes"),
        ("{{ ('www.a.com ' * 10000) | urlize(target='x' * 100000) }}", "memory_bytes"),
        ("{{ ('a@a.com ' * 10000) | urlize(rel='x' * 100000) }}", "memory_bytes"),
        ("{{ dict(range(0, 40000 * (2**61 - 1), 2**61 - 1) | batch(2) | list) | length }}", "the limit seconds"),
        ("{{ namespace(range(0, 40000 * (2**61 - 1), 2**61 - 1) | batch(2) | list) }}", "the limit seconds"),
        ("{{ [1] | batch(10**10, 'x') | list }}", "too wide"),
        ("{{ [1] | slice(10**10) | list }}", "too wide"),
        ("{{ 5 | round(-1000000000) }}", "too large"),
        ("{{ 5 | round(1000000000, 'floor') }}", "too large"),
        ("{{ [[1]] | tojson(indent=10**9) }}", "too large"),
        ("{{ ([[1]] * 10000) | sum(start=[]) }}", "sum adds numbers only"),
        ("{{ r | list * 1000 }}", ""),
        ("{{ ('a ' * 5000000).split() | length }}", "memory_bytes"),
        ("{{ ('a ' * 5000000) | list | length }}", "memory_bytes"),
        ("{{ ('a ' * 5000000) | wordcount }}", "memory_bytes"),
        ("{{ ('a ' * 5000000) | title | length }}", "memory_bytes"),
        ("{{ r | map('center', 9999) | list }}", "memory_bytes"),
        (grow("[s.a, s.a]"), ""),
        (grow("(s.a, s.a)"), ""),
        (grow("{'a': s.a, 'b': s.a}"), ""),
        (grow("dict(a=s.a, b=s.a)"), ""),
        (grow("s.a ~ s.a"), "memory_bytes"),
        (grow("s.a + s.a"), "memory_bytes"),
        (grow("s.a + s.a", "[1]"), "memory_bytes"),
        (grow("s.a * 2"), "memory_bytes"),
        (grow("'%s%s' % (s.a, s.a)"), "memory_bytes"),
        (grow("'%s%s' | format(s.a, s.a)"), "memory_bytes"),
        (grow("'{0}{0}'.format(s.a)"), "memory_bytes"),
        (grow("s.a | replace('x', 'xx')"), "memory_bytes"),
        (grow("s.a.replace('', 'x')"), "memory_bytes"),
        (grow("[s.a, s.a] | join"), "memory_bytes"),
        (grow("s.a * s.a", "10"), "too large"),
        (grow("s.a ** 9", "10"), "too large"),
        ("{% macro m() %}{{ m(varargs, varargs) }}{% endmacro %}{{ m(1) }}", ""),
        ("{% macro m() %}{{ m(a=kwargs, b=kwargs) }}{% endmacro %}{{ m(a=1) }}", ""),
        ("{% autoescape true %}{{ '<' * 10**10 }}{% endautoescape %}", "memory_bytes"),
    ],
)
def test_a_template_that_grows_past_all_bounds_ends_in_an_error(template, limit):
    any_limit = limit in ("", "limit") or "seconds" in limit
    assert limit in str(failure(template, {"r": list(range(3_000))}, SMALL if any_limit else PATIENT))


@pytest.mark.parametrize(
    "template",
    [
        "{{ {('k' * 5_000): 'word ' * 50_000} | pprint }}",
        "{{ {('k' * 3_000): {('k' * 3_000): 'word ' * 50_000}} | pprint }}",
        "{{ deep | tojson(indent=16) }}",
    ],
)
@pytest.mark.slow
def test_an_indentation_is_charged_before_it_is_made(template):
    tracemalloc.start()
    try:
        error = failure(template, {"deep": nested(list(range(30_000)), 150)}, PATIENT)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "memory_bytes" in str(error)
    assert peak < 2 * PATIENT.memory_bytes


def test_a_value_is_pretty_printed_as_python_does_it():
    value = {"names": ["a" * 30] * 3, "n": {"b": 1, "a": [None, True, "x y " * 30]}}
    assert render_template("{{ v | pprint }}", {"v": value}) == pformat(value)


@pytest.mark.parametrize(
    "template",
    [
        "{{ " + "(" * 5_000 + ")" * 5_000 + " }}",
        "{{ " + "-" * 5_000 + "1 }}",
        "{{ " + "1+" * 5_000 + "1 }}",
        "{{ " + "[" * 5_000 + "]" * 5_000 + " }}",
        "{% if 1 %}" * 300 + "{% endif %}" * 300,
        "{% for i in [1] %}" * 30 + "{% endfor %}" * 30,
        "{{ x" + "|upper" * 3_000 + " }}",
        "{{" * 40_000,
        "{%" * 40_000,
        "{#" * 40_000,
        "{{ 'a" * 10_000,
        "{% raw %}" * 10_000,
        "x" * 200_000,
    ],
)
def test_a_template_that_cannot_be_read_ends_in_an_error(template):
    failure(template)
    assert check_template(template)


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ x.__class__ }}",
        "{{ x['__class__'] }}",
        "{{ x | attr('__class__') }}",
        "{{ [x] | map(attribute='__class__') | list }}",
        "{{ [x] | map('attr', '__class__') | list }}",
        "{{ [x] | groupby('__class__') }}",
        "{{ '{0.__class__}'.format(x) }}",
        "{{ '{x.__class__}'.format_map({'x': x}) }}",
        "{% set f = '{0.__class__}'.format %}{{ f(x) }}",
        "{{ self.__init__.__globals__ }}",
        "{{ self._TemplateReference__context }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ joiner.__init__.__globals__.os }}",
        "{{ namespace.__init__ }}",
        "{{ namespace }}",
        "{{ namespace(a=1) }}",
        "{{ [namespace()] }}",
        "{{ '{!r}'.format(namespace()) }}",
        "{% macro m() %}{% endmacro %}{{ m._func }}",
        "{% macro m() %}{% endmacro %}{{ m }}",
        "{% for i in [1] %}{{ loop._iterator }}{% endfor %}",
        "{% for i in [1] %}{{ loop }}{% endfor %}",
        "{{ ([1] | map('string')).gi_frame }}",
        "{{ x.encode() }}",
        "{{ x.upper }}",
        "{{ x | attr('upper') }}",
        "{{ range(3).__reduce__ }}",
        "{{ range.mro() }}",
        "{{ (1).to_bytes(10**9, 'big') }}",
        "{{ [1].append(2) }}",
        "{% include '/etc/passwd' %}",
        "{% extends '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{% do x %}",
        "{{ open('/etc/passwd') }}",
        "{{ x() }}",
    ],
)
def test_nothing_outside_can_be_reached(template):
    failure(template, {"x": "abc"})


def test_dunders_of_a_dict_are_keys_like_others():
    assert render_template("[{{ x.__class__ }}{{ y.__class__ }}]", {"x": {}}) == "[]"


# What models wrote


def test_of_the_recorded_templates_each_renders_or_is_refused_beforehand(shared_data):
    total = faulty = 0
    for template, variables in recorded_templates(shared_data):
        total += 1
        if check_template(template):
            faulty += 1
            continue
        assert any(renders(template, dict.fromkeys(variables, value)) for value in ("text", ROWS, 3, {"a": "b"}))
        assert isinstance(names_of(template), tuple)
    assert (total, faulty) == (349, 50)


def renders(template, variables):
    try:
        return isinstance(render_template(template, variables), str)
    except TemplateError:  # not the values that this one takes
        return False


def recorded_templates(folder):
    for file in sorted(folder.glob("chat2workflow/*/*.json")):
        for record in json.loads(file.read_text()) if file.parent.name != "dataset" else []:
            try:
                nodes = json.loads(record["workflow"])["nodes_info"]
            except (KeyError, TypeError, ValueError):
                continue
            for node in nodes:
                if node.get("type") in {"template-transform", "template"}:
                    yield node["param"]["template"], [name for name, _ in node["param"]["variables"]]


@pytest.mark.parametrize("call", ["[].append(1)", "{}.update({})", "{'a': 1}.pop('a')", "[1]['pop']()"])
def test_the_check_of_a_template_that_changes_a_value_says_how_to_build_one(call):
    template = f"\n{{% set _ = {call} %}}"
    [issue] = check_template(template)
    assert (issue.code, issue.where) == ("template", "line 2")
    assert issue.message.endswith(
        ": a template cannot change lists and dicts; write {% set ns = namespace(items=[], d={}) %}, and "
        "{% set ns.items = ns.items + [x] %} or {% set ns.d = dict(ns.d, **{key: value}) %}"
    )
    with pytest.raises(TemplateError):
        render_template(template, {})


def test_templates_build_lists_and_dicts():
    lists = "{% set ns = namespace(items=[]) %}{% set ns.items = ns.items + [1] %}{{ ns.items }}"
    dicts = "{% set ns = namespace(d={}) %}{% set ns.d = dict(ns.d, **{'a': 1}) %}{{ ns.d }}"
    assert check_template(lists) == check_template(dicts) == []
    assert render_template(lists + dicts, {}) == "[1]{'a': 1}"
