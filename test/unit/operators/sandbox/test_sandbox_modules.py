"""Modules and ways of writing that the sandbox has by ours; each call ends as with CPython, in this process."""

import asyncio

import pytest

from operad.operators.sandbox.code import CodeError, check_code, run_code
from operad.operators.sandbox.driver import call_main

BODIES = {
    "re.sub with a function": 'import re\nreturn {"r": re.sub(r"a(.)", lambda m: m.group(1).upper(), "banana", count=2)}',
    "re.sub within re.sub": 'import re\nreturn {"r": re.sub("b.", lambda m: re.sub("a", lambda k: "<a>", m.group(0)), "babo")}',
    "a pattern's sub": 'import re\nreturn {"r": [re.compile("x").sub(lambda m: "y", "axax", 1), re.compile("a").sub("b", "aa")]}',
    "del": "a, l, x = {1: 2, 3: 4}, [1, 2, 3, 4], 1\ndel a[1], l[1:3], x\nreturn {'r': [a.get(3), l]}",
    "is_integer": 'return {"r": [(3.0).is_integer(), (2.5).is_integer(), float("inf").is_integer(), (4 / 2).is_integer()]}',
    "io": 'import io\ns = io.StringIO("a\\nb")\nlines = [line for line in s]\ns.write("c")\nreturn {"r": [lines, s.getvalue()]}',
    "csv of io": 'import csv, io\nout = io.StringIO()\ncsv.writer(out).writerow([1, "a,b"])\nreturn {"r": out.getvalue()}',
    "redirected print": "import io, contextlib\nb = io.StringIO()\nwith contextlib.redirect_stdout(b):\n"
    '    print("a", 1, sep="-")\n    exec("print(2)", {})\nreturn {"r": b.getvalue()}',
    "sys.stdout": 'import io, sys\nold = sys.stdout\nsys.stdout = b = io.StringIO()\nprint("x")\nsys.stdout = old\n'
    'return {"r": b.getvalue()}',
    "hmac": 'import hashlib, hmac\nreturn {"r": [hmac.new(b"k", b"m", hashlib.sha256).hexdigest(), '
    'hmac.new(b"k" * 200, b"m", "sha512").hexdigest()]}',
    "logging": 'import logging\nlog = logging.getLogger(__name__)\nlogging.basicConfig(level=logging.INFO)\nlog.info("%s", 1)\n'
    'return {"r": logging.WARNING}',
    "ast.literal_eval": "import ast\nreturn {'r': ast.literal_eval(\"{'a': [1, -2.5e3, 'x(y)', None, True, 0x1F]}\")}",
    "ast.literal_eval of a call": "import ast\ntry:\n    ast.literal_eval('f(1)')\nexcept ValueError:\n    return {'r': 1}",
    "urllib.parse": "from urllib.parse import parse_qs, parse_qsl, urljoin, urlunparse\nreturn {'r': ["
    "urljoin('http://a/b/c', '../d?x=1'), urljoin('http://a/b/', 'e'), parse_qs('a=1&b=2&a=3+4'), parse_qsl('a=%20'), "
    "urlunparse(('http', 'a', 'b', '', 'q=1', 'f'))]}",
    "base64.binascii": "import base64\ntry:\n    base64.b64decode('a')\nexcept base64.binascii.Error:\n    return {'r': 1}",
    "statistics": "import statistics as s\nreturn {'r': [s.mean([1, 2, 3]), s.mean([1, 2]), s.median([3, 1, 2, 4]), "
    "s.mode('aab'), s.stdev([1, 2, 4]), s.pvariance([1.5, 2.5])]}",
    "string": "import string\nreturn {'r': [string.punctuation, string.printable, string.capwords('a bc')]}",
    "textwrap": "import textwrap\nreturn {'r': [textwrap.dedent('  a\\n   b\\n'), textwrap.indent('a\\n\\nb', '> ')]}",
    "heapq": "import heapq\nh = []\nfor n in [3, 1, 2]:\n    heapq.heappush(h, n)\nreturn {'r': [heapq.heappop(h), "
    "heapq.nlargest(2, [1, 3, 2]), heapq.nsmallest(1, ['bb', 'a'], key=len)]}",
    "operator": "import operator\nreturn {'r': sorted([{'a': 2}, {'a': 1}], key=operator.itemgetter('a'))}",
    "uuid": "import uuid\nreturn {'r': len(str(uuid.uuid4()))}",
    "compile": "try:\n    compile('a b', 'x', 'exec')\nexcept SyntaxError:\n    return {'r': eval(compile('1 + 1', 'x', 'eval'))}",
    "wrong syntax given to exec, eval and compile": "r = []\nfor run, code in ((exec, 'x = 1\\n3 €'), (eval, 'a b'), (eval, '')):"
    "\n    try:\n        exec(code) if run is exec else eval(code)\n    except SyntaxError as e:\n        r.append(str(e))\n"
    "try:\n    compile('x =', 'file', 'exec')\nexcept SyntaxError as e:\n    return {'r': [*r, str(e), eval(' 1 + 1')]}",
    "strptime of no date": "from datetime import datetime\nr = [str(datetime.strptime('2024-01-02', '%Y-%m-%d'))]\n"
    "for text in ('a\\nb', '2024-01-02x', None, {}):\n    try:\n        datetime.strptime(text, '%Y-%m-%d')\n"
    "    except (TypeError, ValueError) as e:\n        r.append(str(e))\nreturn {'r': r}",
    "a format that a dict does not have": "x = {}\nreturn {'r': f'{x:.2f}'}",
    "addresses that are no texts": "from urllib.parse import quote, urljoin, urlparse\nr = [urlparse(None).path == b'']\n"
    "for call in (lambda: urlparse([1]), lambda: quote(5), lambda: urljoin(5, 'a')):\n"
    "    try:\n        call()\n    except (AttributeError, TypeError) as e:\n        r.append(str(e))\nreturn {'r': r}",
    "callable": "class A: pass\nreturn {'r': [callable(x) for x in (len, lambda: 1, A, 1, 'x', [])]}",
    "a missing key": "return {'r': {}['x']}",
    "a missing number": "return {'r': {}[7]}",
    "broken JSON": "import json\njson.loads('')\nreturn {}",
}


def snippet(body):
    return "def main():\n" + "\n".join(f"    {line}" for line in body.split("\n"))


def cpython(code):
    said = call_main(code, {}, [], awaited=False)
    return said.get("error") or said["text"]


@pytest.mark.parametrize("name", BODIES)
def test_the_sandbox_ends_as_cpython_does(name):
    code = snippet(BODIES[name])
    assert check_code(code) == []
    expected = cpython(code)
    if expected.startswith("{"):
        import json

        assert run_code(code, {}) == json.loads(expected)
    else:
        with pytest.raises(CodeError) as caught:
            run_code(code, {})
        assert str(caught.value).endswith(f"`: {expected}")


def test_the_line_of_an_error_is_shown_as_it_was_written():
    with pytest.raises(CodeError, match=r"at line 4, `return \{'r': re\.sub\(p, f, 3\)\}`"):
        run_code("import re\ndef main():\n    p, f = 'a', lambda m: ''\n    return {'r': re.sub(p, f, 3)}", {})


def test_names_of_the_snippets_own_are_left_alone():
    code = snippet(
        "def compile(x): return x + 1\nclass A:\n    def sub(self, x): return x * 2\nreturn {'r': [compile(1), A().sub(4)]}"
    )
    assert run_code(code, {}) == {"r": [2, 8]}


def test_the_driver_says_which_line_failed_and_of_what_type_a_value_is():
    failed = call_main("def main():\n    return 1 / 0", {}, [], awaited=False)
    assert failed == {"error": "ZeroDivisionError: division by zero", "line": 2, "returned": False}
    assert call_main("def main(a, /): return a", {"a": 1}, ["a"], awaited=False) == {"text": None, "kind": "int"}
    # in a thread: the loop of the test runs here
    awaited = asyncio.run
    assert awaited(asyncio.to_thread(call_main, "async def main(): return {}", {}, [], awaited=True))["text"] == "{}"
