"""Nothing of a stranger's code runs before it is trusted, and then nothing but that code."""

import json
import os
import re
import stat
import subprocess
import sys
from typing import Any

import httpx
import pytest
from local_http import NO_AUTHORITIES

from operad.cli.trust_store import TrustStore
from operad.configs import load
from operad.configs.capabilities import UntrustedError
from operad.configs.loader import load_text, preview
from operad.configs.optimise.tasks import read_tasks
from operad.runtime.testing import Say, ScriptedModel
from operad.runtime.tools.tool import Tool
from operad.runtime.values.errors import InvalidError
from operad.runtime.values.fingerprint import name_of

SPOILS = "open({name!r}, 'w').close()\n"
"""Code that leaves a file when it runs."""

HIDDEN_IN_THE_FOLDER = ("brotli", "h2", "trio", "orjson", "ujson", "uvloop", "httptools", "watchfiles", "zstandard")
"""Modules that HTTP libraries import where they find them."""

STEPS = """
from operad.operators import Operator


class Greeter(Operator):
    def __init__(self, config, marks, toolkit=None):
        super().__init__(config, toolkit=toolkit)
        self.marks = marks

    async def execute(self, *call, **named):
        return "Hello" + "!" * self.marks


def search(query: str) -> str:
    "Search the web."
    return query
"""

EXPERT = """
tools: [&search {name: search, module_path: steps}]
operators: [&greet {instruction: Greet., class: steps.Greeter, params: {marks: 3}, tools: [*search]}]
experts: [{profile: {name: Greeter}, workflow: [[*greet]]}]
"""

PLAIN = """
operators: [&greet {instruction: Greet.}]
experts: [{profile: {name: Greeter}, workflow: [[*greet]]}]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch, nothing_configured):
    """A folder with an expert whose code leaves a file `ran` when it is imported, and an empty store of trust."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "steps.py").write_text(SPOILS.format(name="ran") + STEPS)
    (tmp_path / "expert.yaml").write_text(EXPERT)
    return tmp_path


@pytest.fixture
def operad(operad, folder):
    """Runs the command: exit status, stdout, stderr."""
    return operad


def greeter(file, load_it: Any = None) -> Any:
    """The operator of an expert."""
    return (load_it(file) if load_it else load(file, trust=True)).workflows["Greeter"].get_operator("greet")


RUN = ("run", "expert.yaml", "--job", "Go.", "--base-url", "http://127.0.0.1:9/v1", "--model", "m")
NAMED = "is not trusted. It\n  runs steps.py (Greeter, search)"


# Before trust


@pytest.mark.parametrize("command", [["check"], ["show"], ["check", "--json"]])
def test_check_and_show_import_no_module_that_a_file_names(operad, folder, command):
    status, out, _ = operad(*command, "expert.yaml")
    assert (status, (folder / "ran").exists()) == (0, False)
    assert "reet" in out


def test_convert_imports_no_module_that_a_file_names(operad, folder):
    assert operad("convert", "expert.yaml", "--to", "mermaid")[0] == 2
    assert not (folder / "ran").exists()


def test_check_names_the_code_that_it_did_not_run(operad):
    assert operad("check", "expert.yaml")[1] == (
        "expert.yaml: needs trust: it runs steps.py (Greeter, search)\n1 file: no issues\n"
    )
    assert json.loads(operad("check", "--json", "expert.yaml")[1])[0]["remarks"] == [
        "needs trust: it runs steps.py (Greeter, search)"
    ]


def faults(text, **files):
    """What a look at a file finds wrong."""
    for name, source in files.items():
        with open(f"{name}.py", "w") as file:
            file.write(source)
    with open("seen.yaml", "w") as file:
        file.write(text)
    with pytest.raises(InvalidError) as caught:
        preview("seen.yaml")
    return [issue.message for issue in caught.value.issues]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("steps.Greeter", "steps.Greter"), "module 'steps' has no 'Greter' (did you mean 'Greeter'?)"),
        (("steps.Greeter", "stps.Greeter"), "module 'stps' is neither beside this file nor installed (did you mean 'steps'?)"),
        (("steps.Greeter", "steps.search"), "steps.search is not a subclass of Operator"),
        (("marks: 3", "mark: 3"), "steps.Greeter cannot be made with these: TypeError: missing a required argument: 'marks'"),
        (("{marks: 3}", "{marks: 3, x: 1}"), "TypeError: got an unexpected keyword argument 'x'"),
        (("name: search", "name: serch"), "tool 'serch': module 'steps' has no 'serch' (did you mean 'search'?)"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_code_that_a_file_names_is_seen_without_running_it(folder, change, message):
    [found] = faults(EXPERT.replace(*change))
    assert message in found
    assert not (folder / "ran").exists()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("class T:\n    def __init__(self, key): ...\n    def __call__(self): ...\n", "cannot be instantiated without arguments"),
        ("class T:\n    pass\n", "instances of class own.T cannot be called"),
        ("T = 3\n", "own.T gives 3; it must be a function"),
        ("def T(*args): ...\n", "parameter '*args' is variadic positional"),
        ("def T(:\n", "module 'own' cannot be read: SyntaxError"),
        ("from os import system as T\n", "os.system belongs to Python's standard library; wrap it in a function of your own"),
        ("from nowhere import T\n", "module 'nowhere' is neither beside this file nor installed"),
    ],
)  # fmt: skip
def test_a_tool_that_cannot_be_one_is_seen_without_running_it(folder, source, message):
    [found] = faults(PLAIN + "tools: [{name: T, module_path: own}]\n", own=SPOILS.format(name="ran") + source)
    assert message in found
    assert not (folder / "ran").exists()


@pytest.mark.parametrize(
    ("source", "remark"),
    [
        ("from computed import base\nclass G(base()): ...\n", "whether it is a subclass of Operator is not known: the base base() is computed"),
        ("def __getattr__(name): ...\n", "whether it is a subclass of Operator is not known: module 'own' may define 'G' while it runs"),
        ("from operad.operators import Operator\n@some\nclass G(Operator): ...\n", "the `params` that it takes are not known without running it"),
    ],
)  # fmt: skip
def test_what_only_running_the_code_would_tell_is_a_remark(folder, source, remark):
    (folder / "own.py").write_text(source)
    (folder / "expert.yaml").write_text(PLAIN.replace("Greet.}", "Greet., class: own.G}"))
    assert any(each.startswith("own.G: ") and remark in each for each in preview("expert.yaml").remarks)


def test_a_class_is_followed_over_imports_and_bases_without_running_them(folder):
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text(SPOILS.format(name="ran") + "from .inner import Kind as Sort\n")
    (folder / "package" / "inner.py").write_text("import operad.operators as o\nclass Kind(o.Operator): ...\n")
    (folder / "own.py").write_text("from package import Sort\nclass G(Sort):\n    async def execute(self, *a): ...\n")
    (folder / "expert.yaml").write_text(PLAIN.replace("Greet.}", "Greet., class: own.G}"))
    seen = preview("expert.yaml")
    assert seen.remarks == (
        "needs trust: it runs own.py (G)",
        "needs trust: it runs package/__init__.py (imported)",
        "needs trust: it runs package/inner.py (imported)",
    )
    assert not (folder / "ran").exists()


def test_a_node_type_of_ones_own_is_seen_without_running_it(folder):
    (folder / "nodes.py").write_text(
        SPOILS.format(name="ran") + "from operad.operators import NodeOperator\nclass Count(NodeOperator): ...\n"
    )
    text = PLAIN.replace("[&greet {instruction: Greet.}]", "[&greet {type: nodes.Count, params: {of: [text, x]}}]")
    (folder / "expert.yaml").write_text(text)
    assert greeter("expert.yaml", preview).type == "Count"
    assert [*faults(text.replace("Count", "Cuont"))] == ["module 'nodes' has no 'Cuont' (did you mean 'Count'?)"]
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("load_it", [load, lambda path: load_text(path.read_text(), "text", path.parent)])
def test_python_loads_code_only_when_it_is_told_to(folder, load_it):
    with pytest.raises(
        UntrustedError,
        match=r"steps\.py \(Greeter, search\)\nread the file; if you trust it, load the file with trust=True",
    ):
        load_it(folder / "expert.yaml")
    assert not (folder / "ran").exists()
    assert greeter("expert.yaml").marks == 3
    assert (folder / "ran").exists()


def test_a_function_decides_what_is_trusted(folder):
    digest = preview("expert.yaml").capabilities.digest
    assert load("expert.yaml", trust=lambda can: can.digest == digest).profiles
    with pytest.raises(UntrustedError):
        load("expert.yaml", trust=lambda can: can.digest == "other")


def test_a_verifier_of_tasks_needs_trust(folder):
    (folder / "tasks.yaml").write_text("- {id: a, job: x, verify: {class: judges.Judge}}\n")
    (folder / "judges.py").write_text(
        SPOILS.format(name="ran") + "from operad.evaluators import Evaluator\nclass Judge(Evaluator): ...\n"
    )
    with pytest.raises(UntrustedError, match=r"judges\.py \(Judge\)"):
        read_tasks("tasks.yaml")
    assert not (folder / "ran").exists()
    assert read_tasks("tasks.yaml", trust=True).every[0].verifier.in_code


def test_what_is_wrong_with_a_file_is_said_before_trust_is_asked_for(operad, folder):
    (folder / "expert.yaml").write_text(EXPERT.replace("[[*greet]]", "[[*greet, gret]]"))
    status, _, err = operad(*RUN)
    assert (status, "no operator is called 'gret'" in err, "trust" in err) == (2, True, False)


def test_files_without_code_and_classes_of_operad_need_no_trust(operad, folder):
    assert load("designer").profiles
    assert operad("trust", "designer")[1] == "designer: needs no trust\n"
    (folder / "flow.yaml").write_text("workflow: a\nnodes:\n  1: {type: start, variables: {name: string}}\n")
    assert operad("trust", "flow.yaml")[1] == "flow.yaml: needs no trust\n"


@pytest.mark.parametrize("name", ["- &run {function: operad.cli.run.run}", ""])
def test_a_function_of_operad_does_what_the_program_does_and_needs_trust(operad, folder, name):
    """Bound to answers of the steps before it, it would load another file with `trust=True`."""
    run = "*run" if name else "operad.cli.run.run"
    write = "{type: template-transform, params: {template: '%s', variables: []}}"
    steps = "".join(f"- &{key} {write % text}\n" for key, text in {"config": "expert.yaml", "trust": "yes"}.items())
    workflow = f"[[*config, {run}], [*trust, {run}]]"
    (folder / "stranger.yaml").write_text(
        f"model: embedded\noperators:\n{steps}{name}\nexperts: [{{profile: {{name: X}}, workflow: {workflow}}}]\n"
    )
    status, _, err = operad("run", "stranger.yaml", "--job", "Go.")
    assert (status, "installed module operad.cli.run (run)" in err) == (2, True), err
    assert not (folder / "ran").exists()


# Trust


def test_a_run_of_code_that_is_not_trusted_says_what_it_can_do_and_what_to_do(operad, folder):
    status, out, err = operad(*RUN)
    assert (status, out) == (2, "")
    assert err == f"operad: expert.yaml {NAMED}\nread the file, then: operad trust expert.yaml, or give --trust\n"
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("command", [["serve", "expert.yaml"], ["worker", "expert.yaml"], ["optimise", "expert.yaml", "--tasks", "t.yaml"]])  # fmt: skip
def test_all_that_runs_a_file_needs_trust(operad, folder, command):
    (folder / "t.yaml").write_text("- {id: a, job: x, verify: {equals: y}}\n")
    status, _, err = operad(*command)
    assert (status, NAMED in err) == (2, True)
    assert not (folder / "ran").exists()


def test_with_trust_it_runs(operad, folder):
    assert operad(*RUN, "--trust")[:2] == (0, "Hello!!!\n")
    assert (folder / "ran").exists()
    assert operad(*RUN)[0] == 2, "which is not kept"


def test_trust_is_kept_until_the_file_or_its_code_changes(operad, folder):
    assert operad("trust", "expert.yaml")[1] == "trusted: expert.yaml\n  runs steps.py (Greeter, search)\n"
    assert not (folder / "ran").exists()
    assert operad(*RUN)[:2] == (0, "Hello!!!\n")
    (folder / "steps.py").write_text(STEPS + "# changed\n")
    assert operad(*RUN)[0] == 2
    (folder / "steps.py").write_text(SPOILS.format(name="ran") + STEPS)
    assert operad(*RUN)[0] == 0
    (folder / "expert.yaml").write_text(EXPERT.replace("marks: 3", "marks: 4"))
    assert operad(*RUN)[0] == 2


def test_code_that_trusted_code_imports_counts_as_its_own(operad, folder):
    (folder / "steps.py").write_text("def later():\n    import helper\n" + STEPS)
    (folder / "helper.py").write_text("")
    assert operad("trust", "expert.yaml")[1].endswith(
        "  runs steps.py (Greeter, search)\n  runs helper.py (imported)\n"
    )
    assert operad(*RUN)[0] == 0
    (folder / "helper.py").write_text("import os")
    assert operad(*RUN)[0] == 2


def test_a_command_of_an_mcp_server_is_code_and_the_script_that_it_runs_too(operad, folder):
    server = "{transport_type: STDIO, command: python, args: [server.py, --token, '{{secret.SHOP}}']}"
    (folder / "expert.yaml").write_text(PLAIN + f"tools: [{{name: s, type: MCP, mcp_transport_config: {server}}}]\n")
    (folder / "server.py").write_text("")
    status, _, err = operad(*RUN)
    assert (status, "command python server.py --token" in err) == (2, True)
    digest = preview("expert.yaml").capabilities.digest
    (folder / "server.py").write_text("changed")
    assert preview("expert.yaml").capabilities.digest != digest


def test_the_variables_and_the_folder_of_a_command_are_shown_and_the_files_that_variables_name_count_as_code(
    operad, folder
):
    server = "{transport_type: STDIO, command: python, cwd: ., env: {TOKEN: {secret: SHOP}, LD_PRELOAD: ./evil.so}}"
    (folder / "expert.yaml").write_text(PLAIN + f"tools: [{{name: s, type: MCP, mcp_transport_config: {server}}}]\n")
    (folder / "evil.so").write_text("")
    assert operad("trust", "expert.yaml")[1] == (
        "trusted: expert.yaml\n  starts the command python, in ., with TOKEN, LD_PRELOAD\n  sends $SHOP to python\n"
    )
    digest = preview("expert.yaml").capabilities.digest
    (folder / "evil.so").write_text("changed")
    assert preview("expert.yaml").capabilities.digest != digest


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("helper.py", "command: python, args: [-m, helper]"),
        ("tools/__main__.py", "command: python, args: [-m, tools]"),
        ("helper.py", "command: python, args: [-mhelper]"),
        ("helper.py", "command: python, args: [-Bm, helper]"),
        ("helper.py", """command: python, args: [-c, "exec(open('./helper.py').read())"]"""),
        ("helper.sh", "command: sh, args: [-c, 'cd .&&./helper.sh']"),
        ("tools/__main__.py", "command: python, args: [tools]"),
        ("__main__.py", "command: python, args: [.]"),
        ("tools/index.js", "command: node, args: [./tools/]"),
        ("tools/package.json", "command: npm, args: [--prefix, tools, start]"),
        ("hook.js", "command: node, args: [--require=./hook.js, -v]"),
        ("second.so", 'command: python, env: {LD_PRELOAD: "./first.so:./second.so"}'),
        ("hook.js", 'command: node, env: {NODE_OPTIONS: "--require ./hook.js"}'),
    ],
)
def test_a_file_that_a_part_of_an_argument_or_of_a_variable_names_counts_as_code(folder, file, command):
    server = f"{{transport_type: STDIO, {command}}}"
    (folder / "expert.yaml").write_text(PLAIN + f"tools: [{{name: s, type: MCP, mcp_transport_config: {server}}}]\n")
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_text("")
    digest = preview("expert.yaml").capabilities.digest
    (folder / file).write_text("changed")
    assert preview("expert.yaml").capabilities.digest != digest


def test_the_store_is_the_users_alone_and_lists_and_forgets(operad, folder):
    operad("trust", "expert.yaml")
    file = folder / "config" / "operad" / "trust.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    listed = operad("trust", "--list")[1].splitlines()
    assert (listed[0].split()[0], listed[1]) == (str(folder / "expert.yaml"), "  runs steps.py (Greeter, search)")
    assert operad("trust", "--revoke", "expert.yaml")[1] == "not trusted any more: expert.yaml\n"
    assert operad("trust", "--list")[1] == "nothing is trusted\n"
    assert operad("trust", "--revoke", "expert.yaml")[0] == 2
    assert operad(*RUN)[0] == 2


@pytest.mark.parametrize(("text", "mode", "said"), [("[]", 0o600, "is not a store of trust"), ("{", 0o600, "is not a store of trust"), ("{}", 0o666, "others can write to it")])  # fmt: skip
def test_a_store_that_cannot_be_relied_on_is_refused(operad, folder, text, mode, said):
    file = TrustStore.of_user(os.environ).path
    file.parent.mkdir(parents=True)
    file.write_text(text)
    file.chmod(mode)
    status, _, err = operad(*RUN)
    assert (status, said in err) == (2, True)


def test_at_a_terminal_the_question_lists_the_code_and_the_answer_is_kept(folder, at_a_terminal):
    command = [*RUN]
    status, _, seen = at_a_terminal(command, b"n\n")
    assert status == 2
    assert "expert.yaml is not trusted. It" in seen
    assert "  runs steps.py (Greeter, search)" in seen
    assert "Code and commands can do all that you can do." in seen
    assert "Allow this, now and as long as it does not change? (yes or no)" in seen
    assert not (folder / "ran").exists()
    assert at_a_terminal(command, b"y\n")[:2] == (0, "Hello!!!\n")
    assert at_a_terminal(command)[:2] == (0, "Hello!!!\n")


# After trust


def test_nothing_is_added_to_the_path_and_modules_find_their_neighbours_alone(folder):
    (folder / "steps.py").write_text(
        "import helper, package.inner\nfrom package import WORD\nfrom .helper import NAME\n" + STEPS
        + "def said():\n    import late\n    return helper.NAME + package.inner.NAME + WORD + NAME + late.NAME\n"
    )  # fmt: skip
    (folder / "helper.py").write_text("NAME = 'a'\n")
    (folder / "late.py").write_text("NAME = 'd'\n")
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text("from . import inner\nWORD = 'c'\n")
    (folder / "package" / "inner.py").write_text("import helper\nNAME = helper.NAME + 'b'\n")
    before = list(sys.path)
    greet = greeter(folder / "expert.yaml")
    assert sys.modules[type(greet).__module__].said() == "aabcad"
    assert sys.path == before
    assert not {"steps", "helper", "package", "late"} & set(sys.modules)


def test_classes_keep_their_own_names_in_fingerprints_wherever_they_lie(folder):
    greet = greeter("expert.yaml")
    assert name_of(type(greet)) == "steps.Greeter"


def test_a_module_that_the_program_has_imported_is_the_same_one(folder, monkeypatch):
    monkeypatch.syspath_prepend(folder)
    (folder / "own_steps.py").write_text(STEPS)
    (folder / "expert.yaml").write_text(EXPERT.replace("steps", "own_steps"))
    import own_steps  # pyright: ignore[reportMissingImports] # ty: ignore

    try:
        greet = greeter("expert.yaml")
        assert type(greet) is own_steps.Greeter
    finally:
        del sys.modules["own_steps"]


def test_compiled_files_beside_the_source_are_not_run(folder):
    from importlib._bootstrap_external import _code_to_hash_pyc  # pyright: ignore
    from importlib.util import cache_from_source, source_hash

    planted = compile(SPOILS.format(name="planted") + STEPS, "steps.py", "exec")
    cached = folder / cache_from_source("steps.py")
    cached.parent.mkdir()
    cached.write_bytes(_code_to_hash_pyc(planted, source_hash(b"x"), False))
    assert load("expert.yaml", trust=True).profiles
    assert ((folder / "ran").exists(), (folder / "planted").exists()) == (True, False)


def test_an_edited_module_is_loaded_anew(folder):
    first = greeter("expert.yaml")
    (folder / "steps.py").write_text(STEPS.replace("self.marks = marks", "self.marks = 2 * marks"))
    second = greeter("expert.yaml")
    assert (first.marks, second.marks) == (3, 6)


@pytest.mark.parametrize(
    ("module", "name"), [("os", "system"), ("subprocess", "run"), ("os.path", "exists"), ("builtins", "eval"), ("posix", "system")]
)  # fmt: skip
def test_functions_of_the_standard_library_are_not_tools(operad, folder, module, name):
    (folder / "expert.yaml").write_text(PLAIN + f"tools: [{{type: LOCAL_TOOL, module_path: {module}, name: {name}}}]\n")
    for command in (("check", "expert.yaml"), (*RUN, "--trust")):
        status, out, err = operad(*command)
        assert status == 2
        assert f"module '{module}' belongs to Python's standard library; wrap what is needed in a function" in out + err


@pytest.mark.parametrize("module", ["operad.__main__", "pack.__main__"])
@pytest.mark.parametrize(
    "entry", ["{{class: {}.A, instruction: Do.}}", "{{function: {}.main}}", "{{instruction: Do., tools: [{}.main]}}"]
)
def test_the_module_of_a_program_is_not_imported(operad, folder, module, entry):
    (folder / "pack").mkdir()
    (folder / "pack" / "__init__.py").touch()
    (folder / "pack" / "__main__.py").write_text("open('ran', 'w').close()\n")
    head = "app: {name: a, desc: d}\nexperts: [{profile: {name: E, desc: d}, workflow: [[*a]]}]\n"
    (folder / "expert.yaml").write_text(f"operators: [&a {entry.format(module)}]\n{head}")
    for command in (("check", "expert.yaml"), (*RUN, "--trust"), ("trust", "expert.yaml")):
        status, out, err = operad(*command)
        assert status == 2
        assert f"module '{module}' is a program, which its import would run" in out + err
    assert not (folder / "ran").exists()


def test_nor_are_they_under_another_name(folder):
    (folder / "own.py").write_text("import os\ng = globals()\ng['T'] = os.system\n")
    (folder / "expert.yaml").write_text(PLAIN + "tools: [{name: T, module_path: own}]\n")
    assert preview("expert.yaml").remarks
    with pytest.raises(InvalidError, match=r"posix\.system belongs to Python's standard library"):
        load("expert.yaml", trust=True)
    (folder / "own.py").write_text("import os\ndef T(command: str) -> int:\n    return os.system(command)\n")
    assert [type(tool) for tool in load("expert.yaml", trust=True).services.tools] == [Tool]


def test_installed_packages_may_be_tools_with_trust(folder):
    (folder / "expert.yaml").write_text(PLAIN + "tools: [{name: get, module_path: httpx}]\n")
    with pytest.raises(UntrustedError, match=r"installed module httpx \(get\)"):
        load("expert.yaml")


@pytest.fixture
def trapped(folder):
    """Files whose folder holds modules that HTTP libraries would import, and the command as it is installed."""
    for name in HIDDEN_IN_THE_FOLDER:
        (folder / f"{name}.py").write_text(SPOILS.format(name=f"{name}-ran"))
    (folder / "expert.yaml").write_text(PLAIN)
    (folder / "coded.yaml").write_text(
        EXPERT.replace("Greeter}", "Coded}").replace("[[*greet]]", "[[*greet, {instruction: Say.}]]")
    )
    (folder / "bin").mkdir()
    (folder / "bin" / "begin.py").write_text("from operad.cli.entry import main\nmain()\n")
    return [sys.executable, str(folder / "bin" / "begin.py")]


@pytest.mark.parametrize("file", ["expert.yaml", pytest.param("coded.yaml", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_http_libraries_import_nothing_that_lies_beside_a_file_that_runs(trapped, folder, file):
    with ScriptedModel([Say("Hello!!!")]) as endpoint:
        given = ["--job", "Go.", "--base-url", endpoint.base_url]
        done = subprocess.run(
            [*trapped, "run", "--trust", file, *given],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert (done.returncode, done.stdout) == (0, "Hello!!!\n"), done.stderr
    assert [*folder.glob("*-ran")] == []


@pytest.mark.slow
def test_nor_beside_a_file_that_is_served(trapped, folder):
    given = ["--port", "0", "--base-url", "http://127.0.0.1:9/v1"]
    process = subprocess.Popen(
        [*trapped, "serve", "--trust", "expert.yaml", "coded.yaml", *given],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        found = (re.match(r"(http://\S+) \(/v1,", line) for line in process.stderr)
        url = next(each[1] for each in found if each)
        assert httpx.get(f"{url}/v1/models", trust_env=False, verify=NO_AUTHORITIES).status_code == 200
    finally:
        process.kill()
        process.communicate()
    assert [*folder.glob("*-ran")] == []
