"""`operad studio` as a command."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from urllib.request import ProxyHandler, build_opener

import pytest
from amounts import sample
from forked import OPERAD_COMMAND

from operad.cli import main as cli
from operad.runtime.values.pip import pip_install

FLOW = "workflow: greet\nnodes:\n  1: {type: start, variables: []}\n  2: {type: end, after: 1, outputs: []}\n"
OPENER = build_opener(ProxyHandler({}))


def told_address(process):
    """The address that the command prints."""
    said, until = "", time.monotonic() + 60
    while not (found := re.search(r"studio: (http://127\.0\.0\.1:\d+/[\w-]{32,}/\S*)", said)):
        line = process.stderr.readline()
        assert line, said
        assert time.monotonic() < until
        said += line
    return found[1]


@pytest.mark.parametrize("number", sample([signal.SIGINT, signal.SIGTERM], 2))
def test_a_file_is_opened_until_ctrl_c(tmp_path, forked, number):
    (tmp_path / "my flow.yaml").write_text(FLOW)
    process = forked.begin(
        [*OPERAD_COMMAND, "studio", "my flow.yaml", "--port", "0"],
        cwd=tmp_path, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)},
    )  # fmt: skip
    with process:
        try:
            url, _, fragment = told_address(process).partition("#")
            assert fragment == "file=my%20flow.yaml"
            with OPENER.open(f"{url}data/files") as answer:
                told = json.loads(answer.read())
            assert [each["path"] for each in told["files"]] == ["my flow.yaml"]
            process.send_signal(number)
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()


def test_a_place_that_is_not_there_is_told_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["operad", "studio", "none.yaml"])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    assert exit_.value.code == 2
    assert capsys.readouterr().err == (
        "operad: none.yaml: no such file or folder; operad studio FOLDER makes new files in a folder\n"
    )


def test_without_the_extra_it_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "starlette.requests", None)
    for module in [each for each in sys.modules if each.startswith(("operad.server.studio", "operad.server.view"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "argv", ["operad", "studio", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    told = f"operad: the studio needs the extra `page`: {pip_install('page')}\n"
    assert (ended.value.code, *capsys.readouterr()) == (2, "", told)


def test_a_fault_of_a_services_file_is_told_before_the_page_is_opened(tmp_path, monkeypatch, capsys):
    (tmp_path / "services.yaml").write_text("tols: [a.b]\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["operad", "studio", ".", "--services", "services.yaml"])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    assert exit_.value.code == 2
    assert "services.yaml:1: tols" in capsys.readouterr().err
