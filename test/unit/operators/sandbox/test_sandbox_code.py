import asyncio
import html
import json
import os
from dataclasses import replace
from urllib import parse

import pytest
from amounts import amount, sample

from operad.operators.sandbox.code import (
    MODULES,
    CodeError,
    CodeLimits,
    Parameters,
    check_code,
    parameters_of,
    run_code,
)
from operad.operators.sandbox.modules import GIVEN
from operad.runtime.values.errors import InputError, OperadError

SMALL = CodeLimits(seconds=0.3, memory_bytes=32_000_000, output_chars=1_000)
PATIENT = replace(SMALL, seconds=60)  # on a busy machine, too, another limit is reached first


def main(body, takes=""):
    """A snippet whose main has this body."""
    return f"def main({takes}):\n" + "\n".join(f"    {line}" for line in body.split("\n"))


def failure(code, arguments=None, limits=SMALL):
    with pytest.raises(CodeError) as caught:
        run_code(code, arguments or {}, limits)
    return caught.value


# What goes in and out


def test_main_gets_its_arguments_by_name_and_returns_a_dict():
    assert run_code(main('return {"sum": a + b}', "b, a"), {"a": 1, "b": 2}) == {"sum": 3}


def test_values_are_those_of_json_and_a_tuple_becomes_a_list():
    value = {"text": "é 😀 \n", "n": 1, "x": 1.5, "yes": True, "none": None, "list": [1, [2]], "dict": {"a": {}}}
    code = main('return {"back": a, "kind": type(a["list"]).__name__, "pair": (1, 2)}', "a")
    assert run_code(code, {"a": value}) == {"back": value, "kind": "list", "pair": [1, 2]}
    assert run_code(main('return {"a": a}', "a"), {"a": (1, 2)}) == {"a": [1, 2]}


@pytest.mark.parametrize(
    ("takes", "arguments", "got"),
    [
        ("a, /, b", {"a": 1, "b": 2}, [1, 2, 0]),
        ("a, b=5", {"a": 1}, [1, 5, 0]),
        ("a, *, b=5", {"a": 1, "b": 2}, [1, 2, 0]),
        ("a, b=5, **others", {"a": 1, "z": 2}, [1, 5, 1]),
    ],
)
def test_main_may_take_them_in_any_way(takes, arguments, got):
    others = "len(others)" if "others" in takes else "0"
    assert run_code(main(f'return {{"got": [a, b, {others}]}}', takes), arguments) == {"got": got}


def test_missing_and_surplus_arguments_are_named_with_the_nearest():
    text = str(failure(main("return {}", "topics, n=1"), {"topic": "x", "what": 1}))
    assert "main needs 'topics', which is not given (did you mean 'topic'?)" in text
    assert "'topic' is given, but main takes topics, n (did you mean 'topics'?)" in text
    assert "'what' is given" in text


def test_what_main_takes_can_be_asked_beforehand():
    assert parameters_of("def main(a, b=1, *, c, **d): pass") == Parameters(("a", "b", "c"), ("a", "c"), True)
    assert parameters_of("async def main(args): pass").mismatches(["args"]) == []
    assert Parameters(("a",), ("a",), False).mismatches([]) == ["main needs 'a', which is not given"]


def test_an_async_main_is_awaited():
    assert run_code('async def main(args):\n    return {"x": args["a"]}', {"args": {"a": 1}}) == {"x": 1}


def test_a_fence_around_the_snippet_is_dropped_and_the_lines_keep_their_numbers():
    assert run_code(f"```python\n{main('return {}')}\n```", {}) == {}
    assert failure(f"\n```py\n{main('return 1 / 0')}\n```\n").line == 4


def test_a_fence_inside_the_snippet_stays():
    assert run_code(main('return {"x": "```a```"}'), {}) == {"x": "```a```"}


def test_main_may_be_defined_inside_an_if():
    assert run_code('if True:\n    def main():\n        return {"x": 1}', {}) == {"x": 1}


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("None", "main returned None, not a dict"),
        ("[1]", "main returned a list, not a dict"),
        ("1", "main returned an int, not a dict"),
        ('"x"', "main returned a str, not a dict"),
        ('{"a": {1}}', "a value that JSON cannot represent: TypeError: Object of type set"),
        ('{"a": float("nan")}', "a value that JSON cannot represent: ValueError"),
        ("{(1, 2): 3}", "a value that JSON cannot represent: TypeError: keys must be"),
        ('{"a": main}', "a value that JSON cannot represent: TypeError: Object of type function"),
    ],
)
def test_what_is_no_dict_of_json_is_said_to_be_what_it_is(returned, said):
    assert said in str(failure(main(f"return {returned}")))


@pytest.mark.parametrize("value", [object(), {1}, b"x", float("nan"), "\ud800"])
def test_arguments_that_are_no_json_are_wrong_input(value):
    with pytest.raises(InputError, match="have to be JSON"):
        run_code(main("return {}", "a"), {"a": value})


def test_arguments_larger_than_the_memory_are_wrong_input():
    with pytest.raises(InputError, match=r"do not fit into a sandbox of 8,000,000 bytes.*raise memory_bytes"):
        run_code(main("return {}", "a"), {"a": [1] * 2_000_000}, CodeLimits(memory_bytes=8_000_000))


# What goes wrong


def test_an_error_is_told_with_its_kind_its_text_and_the_line():
    error = failure("def other(x):\n    return 1 / x\n" + main("return other(0)"))
    assert str(error) == "the snippet failed at line 2, `return 1 / x`: ZeroDivisionError: division by zero"
    assert error.line == 2


@pytest.mark.parametrize("end", ["\r", "\r\n"], ids=repr)
def test_the_line_is_counted_as_python_counts_lines(end):
    error = failure(f"def main():{end}    x = 1{end}{end}    return 1 / 0{end}")
    assert str(error) == "the snippet failed at line 4, `return 1 / 0`: ZeroDivisionError: division by zero"
    assert "SyntaxError at line 3, column 12, `return {`" in str(failure(f"def main():{end}{end}    return {{"))


def test_the_line_is_that_of_the_snippet_where_exec_fails():
    assert failure(main('x = 1\nexec("\\n\\n1/0")')).line == 3


def test_a_long_error_is_cut():
    assert len(str(failure(main('raise ValueError("a" * 10**6)')))) < 1_000


def test_wrong_syntax_is_told_with_line_and_column():
    error = failure("def main():\n    return {")
    assert "SyntaxError at line 2, column 12, `return {`: '{' was never closed" in str(error)


def test_a_reference_in_the_code_and_a_written_out_line_break_are_explained():
    assert "declare a variable, and let main take it" in str(failure("url = {{#'1'.url#}}\n"))
    assert "write a line break where a line ends" in str(failure("import json\\ndef main():\\n    return {}"))


@pytest.mark.parametrize("code", ["x = 1", "def man():\n    return {}", "class A:\n    def main(self): pass"])
def test_a_snippet_without_main_says_how_to_define_it(code):
    assert "has no main" in str(failure(code))
    assert "define `def main(a, b):`" in str(failure(code))


@pytest.mark.parametrize(
    "code",
    ["(" * 1_000, "x = " + "-" * 90_000 + "1", "x = " + "1+" * 40_000 + "1", "x" + ".a" * 40_000, "\0", "x" * 200_000],
)
def test_code_that_nobody_can_read_is_refused(code):
    failure(code)


# What can be seen beforehand


def test_modules_that_the_sandbox_lacks_are_named_each_with_its_line():
    issues = check_code(
        "import pandas as pd, json\nfrom urllib.parse import quote, unwrap\nimport urllib.request\n"
        + main("import os.path\nreturn {}")
    )
    assert [(issue.where, issue.message.partition(":")[0]) for issue in issues] == [
        ("line 1", "import pandas"),
        ("line 2", "import urllib.parse.unwrap"),
        ("line 3", "import urllib.request"),
    ]
    assert "packages: [pandas]" in issues[0].message
    assert "it has parse_qs" in issues[1].message


TRICKY = [
    "",
    "a <b> & 'é' \"x\" / +~",
    "&lt;p&gt; &eacute; &#233; &#xe9; &nosuch; & &amp",
    "100%25 %zz %C3%A9 %ff a+b",
    "😀 日本",
]


@pytest.mark.parametrize("text", TRICKY)
def test_given_modules_say_what_those_of_python_say(text):
    code = main(
        "return {'said': [html.escape(t), html.escape(t, quote=False), unescape(html.escape(t)), quote(t), quote(t, safe=''), "
        "u.quote_plus(t), unquote(quote(t)), unquote(t), u.unquote_plus(t), u.urlencode({'k k': t, 'n': 1}), list(map(quote, [t]))]}",
        "t",
    )
    code = (
        "import html, json\nfrom html import unescape\nfrom urllib.parse import (\n  quote,\n  unquote,\n)\nimport urllib.parse as u\n"
        + code
    )
    assert run_code(code, {"t": text})["said"] == [
        html.escape(text), html.escape(text, quote=False), text if "&nosuch" not in text else html.unescape(html.escape(text)),
        parse.quote(text), parse.quote(text, safe=""), parse.quote_plus(text), text, parse.unquote(text), parse.unquote_plus(text),
        parse.urlencode({"k k": text, "n": 1}), [parse.quote(text)],
    ]  # fmt: skip


@pytest.mark.parametrize(
    "address",
    ["https://me@Example.org:80/a/b?x=1#f", "/a/b", "mailto:a@b.c", "", "http://h", "https://github.com/o/r?tab=1"],
)
def test_addresses_are_taken_apart(address):
    names = ["scheme", "netloc", "path", "params", "query", "fragment", "hostname", "port"]
    read = ", ".join(f"p.{name}" for name in names)
    code = (
        "def main(a):\n    from urllib import parse\n    p = parse.urlparse(a)\n    return {'p': ["
        + read
        + ", p.geturl()]}"
    )
    wanted = parse.urlparse(address)
    assert run_code(code, {"a": address})["p"] == [*(getattr(wanted, name) for name in names), wanted.geturl()]


def test_what_fails_in_a_given_module_fails_at_the_line_of_the_snippet():
    error = failure("import html\n" + "\n" * 40 + main("return {'x': html.escape(3)}"))
    assert error.line == 43


@pytest.mark.parametrize(
    ("code", "said", "line"),
    [
        (main("yield 1"), "yield expressions", "line 2"),
        ("class A(dict): pass\n" + main("return {}"), "class inheritance", "line 1"),
        (main("x = 1\ndel x.y"), "'del' statement", "line 3"),
        ("from json import *\n" + main("return {}"), "Wildcard imports", "line 1"),
        ("import os" + ".a" * 40 + "\n" + main("return {}"), "dotted import has more than 32", "line 1"),
    ],
)
def test_python_that_the_sandbox_does_not_know_is_found(code, said, line):
    (issue,) = check_code(code)
    assert said in issue.message
    assert issue.where == line


def test_nothing_runs_while_it_is_checked():
    assert check_code("while True: pass\n" + main("return {}")) == []


def test_a_check_says_where_it_cannot_be_read():
    (issue,) = check_code("def main(:\n    pass")
    assert issue.where == "line 1"
    (issue,) = check_code("x = 1")
    assert "has no main" in issue.message


def test_escapes_that_python_warns_of_are_nobodys_concern():
    assert check_code(main('return {"x": "\\d"}')) == []


# Bounds


@pytest.mark.parametrize(
    ("body", "limit"),
    [
        ("while True: pass", "0.3 s, the limit seconds"),
        ("return {'x': sum(range(10**12))}", "0.3 s, the limit seconds"),
        ("while True:\n    try:\n        while True: pass\n    except BaseException: pass", "the limit seconds"),
        ("import hashlib\nhashlib.pbkdf2_hmac('sha256', b'a', b'b', 10**9)", "the limit seconds"),
        ("while True: print('x' * 10_000)", "the limit seconds"),
        ("x = []\nwhile True: x.append(1)", "32,000,000 bytes, the limit memory_bytes"),
        ("x = 'a'\nwhile True: x += x", "the limit memory_bytes"),
        ("return {'x': 'a' * 10**10}", "the limit memory_bytes"),
        ("return {'x': [0] * 10**10}", "the limit memory_bytes"),
        ("return {'x': 10**10**8}", "the limit memory_bytes"),
        ("return {'x': 1 << 10**10}", "the limit memory_bytes"),
        ("return {'x': '%1000000000d' % 1}", "the limit memory_bytes"),
        ("return {'x': f'{1:>1000000000}'}", "the limit memory_bytes"),
        ("return {'x': 'ab'.replace('a', 'b' * 10**9)}", "the limit memory_bytes"),
        ("return {'x': list(range(10**10))}", "the limit memory_bytes"),
        ("return {'x': 'a'.join(['b' * 10**6] * 10**6)}", "the limit memory_bytes"),
        ("print('a' * 10**9)", "the limit memory_bytes"),
        ("a = [1] * 10\nfor _ in range(12): a = [a] * 10\nreturn {'x': a}", ", the limit "),
        ("return main()", "deeper than 1,000"),
        ("x = []\nfor _ in range(5_000): x = [x]\nreturn {'x': x}", "deeper than 1,000"),
        ("return {'x': 'a' * 2_000}", "more than the 1,000 of the limit output_chars"),
    ],
)
def test_a_limit_ends_a_snippet_and_is_named(body, limit):
    any_limit = limit == ", the limit " or "seconds" in limit
    assert limit in str(failure(main(body), limits=SMALL if any_limit else PATIENT))


def test_loading_a_snippet_is_limited_too():
    assert "the limit seconds" in str(failure("while True: pass\n" + main("return {}")))


def test_what_is_printed_is_dropped_and_sleep_takes_no_time():
    body = "import time\nfor _ in range(100): print('x' * 100_000)\ntime.sleep(10**6)\nreturn {}"
    assert run_code(main(body), {}, CodeLimits(seconds=5)) == {}


def test_after_a_snippet_that_broke_its_worker_the_next_one_runs():
    failure(main("return {'x': 'a'.join(['b' * 10**6] * 10**6)}"))
    assert run_code(main("return {}"), {}) == {}


@pytest.mark.parametrize(
    "body",
    [
        "return {'x': open('/etc/passwd').read()}",
        "open('/tmp/operad-escape', 'w').write('x')",
        "from pathlib import Path\nreturn {'x': Path('/etc/passwd').read_text()}",
        "from pathlib import Path\nreturn {'x': [str(p) for p in Path('/').iterdir()]}",
        "import os\nreturn {'x': os.listdir('/')}",
        "import os\nreturn {'x': os.path.exists('/')}",
        "import os\nreturn {'x': dict(os.environ)}",
        "import os\nreturn {'x': os.getenv('HOME')}",
        "import os\nos.system('true')",
        "import os\nos.fork()",
        "import sys\nreturn {'x': list(sys.modules)}",
        "import sys\nsys.exit(1)",
        "import subprocess",
        "import socket",
        "import ctypes",
        "import importlib",
        "import builtins",
        "import pickle",
        "import threading",
        "__import__('os').system('true')",
        "return {'x': str(__builtins__)}",
        "return {'x': str(globals())}",
        "return {'x': str(vars())}",
        "eval('__import__(\"os\")')",
        "exec('import os\\nos.system(1)')",
        "compile('1', '', 'eval')",
        "return {'x': ().__class__.__bases__[0].__subclasses__()}",
        "return {'x': getattr((), '__class__').__name__}",
        "return {'x': str(main.__globals__)}",
        "return {'x': str(main.__code__)}",
        "return {'x': getattr(print, '__self__')}",
        "return {'x': '{0.__class__}'.format(1)}",
        "return {'x': object.__subclasses__()}",
        "raise SystemExit(3)",
        "raise KeyboardInterrupt",
        "exit()",
        "input()",
        "breakpoint()",
    ],
)
def test_nothing_outside_can_be_reached(body):
    failure(main(body))
    assert not os.path.exists("/tmp/operad-escape")  # noqa: S108


def test_eval_stays_inside():
    assert run_code(main("return {'x': eval('1 + 1')}"), {}) == {"x": 2}


@pytest.mark.parametrize(
    "code",
    [
        "_named = 3\n" + main("return {}", "a"),
        "def isinstance(a, b): return True\n" + main("return [1]"),
        "_json = None\n" + main("return 1"),
        "def type(x): return None\n" + main("return 1"),
    ],
)
def test_a_snippet_that_tampers_with_the_call_fools_only_itself(code):
    failure(code, {"a": 1} if "(a)" in code else {})


def test_a_snippet_leaves_nothing_for_the_next():
    run_code("secret = 1\n" + main("return {}"), {})
    assert "NameError" in str(failure(main("return {'x': secret}")))


async def test_snippets_in_threads_leave_the_loop_free():
    endless = asyncio.create_task(asyncio.to_thread(run_code, main("while True: pass"), {}, SMALL))
    turns = 0
    while not endless.done():
        turns += 1
        await asyncio.sleep(0.01)
    with pytest.raises(CodeError, match="the limit seconds"):
        await endless
    assert turns > 1
    code = main("return {'n': n}", "n")
    results = await asyncio.gather(*(asyncio.to_thread(run_code, code, {"n": n}) for n in range(20)))
    assert [result["n"] for result in results] == list(range(20))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_is_told_that_it_cannot_run_snippets():
    run_code(main("return {}"), {})
    child = os.fork()
    if not child:
        try:
            run_code(main("return {}"), {})
        except OperadError as error:
            os._exit(0 if "forked" in str(error) else 2)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# What models wrote

PLAUSIBLE = [
    "Some text: with a line\nand another https://example.com/a/b",
    '{"a": "b", "items": [{"name": "x", "title": "t", "link": "l", "value": 1}]}',
    '[{"name": "x", "title": "t"}]',
    ["one", "two"],
    [
        {
            "title": "t",
            "link": "l",
            "snippet": "s",
            "name": "x",
            "url": "u",
            "content": "c",
            "category": "ACCOUNTANT",
            "file": {},
            "type": "dir",
            "score": 1,
            "path": "p",
        }
    ],
    ["a|b"],
    3,
    {"a": "b"},
    True,
]


def test_of_the_recorded_snippets_each_runs_or_says_why_not(shared_data):
    total = unreadable = lacking = ran = 0
    for code in sample(recorded_code(shared_data), 6):
        total += 1
        issues = check_code(code)
        lacking += any(issue.code == "import" for issue in issues)
        try:
            names = parameters_of(code).names
        except CodeError:
            assert issues
            unreadable += 1
            continue
        for value in PLAUSIBLE:
            try:
                json.dumps(run_code(code, dict.fromkeys(names, value), CodeLimits(seconds=2)))
            except CodeError:  # not the values that this one takes
                continue
            ran += 1
            break
    assert (total, unreadable, lacking) == (amount(61, 366), amount(2, 17), amount(5, 36))
    assert ran >= amount(45, 270)


def recorded_code(folder):
    for file in sorted(folder.glob("chat2workflow/*/*.json")):
        for record in json.loads(file.read_text()) if file.parent.name != "dataset" else []:
            try:
                nodes = json.loads(record["workflow"])["nodes_info"]
            except (KeyError, TypeError, ValueError):
                continue
            yield from (node["param"]["code"] for node in nodes if node.get("type") == "code")


def test_the_words_for_wrong_syntax_are_told_a_few_times_and_of_texts_alone():
    body = "r = [_syntax_error('a b', 'x', 'exec') for _ in range(50)]\nreturn {'r': [r[0], r.count('')]}"
    assert run_code(main(body), {}) == {"r": ["invalid syntax (x, line 1)", 30]}
    assert run_code(main("return {'r': [_syntax_error(5, 'x', 'exec'), _syntax_error('a b', 'x', main)]}"), {}) == {
        "r": ["", ""]
    }
    assert run_code(main("return {'r': _syntax_error('a ' * 100_000, 'x', 'exec')}"), {}) == {"r": ""}


def test_the_check_names_what_a_module_of_the_sandbox_lacks():
    code = (
        "from dataclasses import dataclass, asdict\ndef main():\n    from datetime import UTC, datetime\n    return {}"
    )
    assert [(issue.code, issue.message.partition(":")[0], issue.where) for issue in check_code(code)] == [
        ("import", "from dataclasses import asdict", "line 1"),
        ("import", "from datetime import UTC", "line 3"),
    ]


def test_the_check_names_attributes_of_modules_that_the_sandbox_lacks():
    code = (
        "import ast, os as system\n"
        "def helper(x: ast.AST) -> ast.AST:\n    return ast.parse(x)\n"
        "def main():\n"
        "    try:\n        ast.walk\n    except AttributeError:\n        pass\n"
        "    if False:\n        ast.dump\n"
        "    return {'r': [system.environ, system.getcwd(), ast.literal_eval('1')]}"
    )
    found = [(issue.code, issue.message.partition(":")[0], issue.where) for issue in check_code(code)]
    assert found == [("import", "ast.parse", "line 3"), ("import", "os.environ", "line 11")]


def test_names_of_modules_that_the_snippet_assigns_are_its_own():
    assert check_code("import ast\ndef main():\n    ast = {'parse': 1}\n    return {'r': ast.parse}") == []
    assert check_code("import ast\ndef main(ast):\n    return {'r': ast.parse}") == []


@pytest.mark.parametrize(
    ("statement", "package"),
    [("import requests", "requests"), ("from urllib.request import urlopen", "urllib"), ("import httpx", "requests")],
)
def test_code_that_sends_requests_is_told_how_they_can_be_sent(statement, package):
    (issue,) = check_code(f"{statement}\n{main('return {}')}")
    assert "a request node" in issue.message
    assert f"packages: [{package}]" in issue.message
    assert "\n" not in issue.message
    assert len(issue.message) < 200


def test_code_that_imports_an_allowed_package_is_not_refused_also_if_the_sandbox_has_a_part_of_it():
    code = "import ast\ndef main():\n    return {'r': ast.dump(ast.parse('1'))}"
    assert [issue.code for issue in check_code(code)] == ["import", "import"]
    assert check_code(code, CodeLimits(packages=("ast",))) == []


USES = {
    "ast": "ast.literal_eval('[1, 2]') == [1, 2]",
    "asyncio": "callable(asyncio.sleep)",
    "base64": "base64.b64encode(b'a').decode() == 'YQ=='",
    "binascii": "binascii.hexlify(b'a') == b'61'",
    "bisect": "bisect.bisect_left([1, 3], 2) == 1",
    "collections": "collections.Counter('aab')['a'] == 2",
    "contextlib": "contextlib.suppress(ValueError) is not None",
    "copy": "copy.deepcopy([[1]]) == [[1]]",
    "csv": "list(csv.reader(['a,b'])) == [['a', 'b']]",
    "dataclasses": "callable(dataclasses.dataclass)",
    "datetime": "datetime.date(2024, 2, 29).isoformat() == '2024-02-29'",
    "decimal": "str(decimal.Decimal('0.1') + decimal.Decimal('0.2')) == '0.3'",
    "functools": "functools.reduce(lambda a, b: a + b, [1, 2]) == 3",
    "hashlib": "hashlib.md5(b'').hexdigest() == 'd41d8cd98f00b204e9800998ecf8427e'",
    "heapq": "heapq.nlargest(1, [1, 3, 2]) == [3]",
    "hmac": "hmac.compare_digest('a', 'a')",
    "html": "html.unescape(html.escape('<')) == '<'",
    "io": "io.StringIO('a').read() == 'a'",
    "itertools": "list(itertools.chain([1], [2])) == [1, 2]",
    "json": "json.loads(json.dumps({'a': 1})) == {'a': 1}",
    "logging": "logging.INFO == 20",
    "math": "math.isqrt(9) == 3",
    "operator": "operator.itemgetter(1)([1, 2]) == 2",
    "os": "os.path.basename('/a/b') == 'b'",
    "pathlib": "pathlib.Path('/a/b.txt').suffix == '.txt'",
    "random": "random.Random(1).randint(5, 5) == 5",
    "re": "re.findall('[0-9]+', 'a1b22') == ['1', '22']",
    "statistics": "statistics.mean([1, 3]) == 2",
    "string": "string.digits == '0123456789'",
    "sys": "sys.maxsize > 0",
    "textwrap": "textwrap.dedent('  a') == 'a'",
    "time": "time.time() > 0",
    "tomllib": "tomllib.loads('a = 1') == {'a': 1}",
    "typing": "typing.Any is not None",
    "unicodedata": "unicodedata.normalize('NFC', 'e\u0301') == '\u00e9'",
    "urllib.error": "isinstance(urllib.error.URLError('x'), Exception)",
    "urllib.parse": "urllib.parse.quote('a b') == 'a%20b'",
    "uuid": "len(str(uuid.uuid4())) == 36",
}


@pytest.mark.parametrize("module", [*MODULES, *GIVEN])
def test_each_offered_module_can_be_imported_and_does_its_work(module):
    code = f"import {module}\ndef main():\n    return {{'right': {USES[module]}}}"
    assert check_code(code) == []
    assert run_code(code, {}) == {"right": True}


@pytest.mark.parametrize("module", GIVEN)
def test_each_name_of_a_given_module_is_there(module):
    there = ", ".join(f"'{name}': {module}.{name} is not None" for name in GIVEN[module])
    assert run_code(f"import {module}\ndef main():\n    return {{{there}}}", {}) == dict.fromkeys(GIVEN[module], True)


def test_a_snippet_may_try_to_import_what_the_sandbox_lacks():
    code = "try:\n    from datetime import UTC\nexcept ImportError:\n    UTC = 0\ndef main():\n    return {'utc': UTC}"
    assert check_code(code) == []
    assert run_code(code, {}) == {"utc": 0}


@pytest.mark.parametrize(
    "code",
    [
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from collections import OrderedDict\n"
        + main("return {}"),
        "try:\n    import json\nexcept ImportError:\n    from functools import cached_property\n" + main("return {}"),
        main("if not json:\n        from typing import cast\nreturn {}"),
    ],
)
def test_imports_that_may_not_run_are_not_refused(code):
    assert check_code(code) == []


def test_modules_inside_modules_that_the_sandbox_lacks_are_found():
    code = "from os.path import join\nfrom collections.abc import Iterable\nimport os.path, json.decoder\n"
    assert [(issue.message.partition(":")[0], issue.where) for issue in check_code(code + main("return {}"))] == [
        ("from collections.abc import Iterable", "line 2"),
        ("import json.decoder", "line 3"),
    ]


def test_at_most_a_few_hundred_imports_are_checked():
    code = "from math import " + ",".join(f"a{number}" for number in range(10_000)) + "\n" + main("return {}")
    assert len(check_code(code)) == 200
