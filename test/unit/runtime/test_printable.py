"""What models and files say does not steer a terminal; piped, it stays as it is."""

import io
import os
import pty

import pytest
from forked import OPERAD_COMMAND

from operad.cli.formats import write_file
from operad.runtime.testing import Say, ScriptedModel
from operad.runtime.values.text import harmless

CLIPBOARD = "\x1b]52;c;cm0gLXJmIC8=\x07"
"""OSC 52: a terminal that obeys it has this in its clipboard."""

EXPERT = """
operators:
  - &greet {instruction: Greet.}
experts:
  - profile: {name: Greeter}
    workflow: [[*greet]]
"""


@pytest.fixture
def shown(forked, tmp_path):
    """Runs the command with a terminal as stdout: what that is given."""

    def shown(*arguments):
        ours, theirs = pty.openpty()
        process = forked.begin([*OPERAD_COMMAND, *map(str, arguments)], cwd=tmp_path, stdout=theirs)
        os.close(theirs)
        seen = b""
        with process:
            while True:
                try:
                    seen += os.read(ours, 4096)
                except OSError:  # nobody is there any more
                    break
        os.close(ours)
        assert process.returncode == 0
        return seen.decode().replace("\r\n", "\n")

    return shown


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("two\nlines\tand a tab\r\n", "two\nlines\tand a tab\n"),
        ("over\rwritten", "over\\u000dwritten"),
        (CLIPBOARD, "\\u001b]52;c;cm0gLXJmIC8=\\u0007"),
        ("\x9b2J\x9d\x7f\x00", "\\u009b2J\\u009d\\u007f\\u0000"),
        ("Zürich, 東京, \N{FAMILY}\N{NO-BREAK SPACE}\ud800", "Zürich, 東京, \N{FAMILY}\N{NO-BREAK SPACE}\ud800"),
    ],
    ids=["lines", "a return", "the clipboard", "C1 and others", "letters"],
)
def test_control_characters_are_escaped_and_all_others_stay(text, printed):
    assert harmless(text) == printed


def test_a_result_steers_no_terminal_and_is_piped_as_it_is(shown, forked, tmp_path):
    (tmp_path / "expert.yaml").write_text(EXPERT)
    with ScriptedModel(lambda _: Say(f"Good\nday{CLIPBOARD}")) as model:
        command = ["run", "expert.yaml", "--job", "Ada", "--base-url", model.base_url]
        assert shown(*command) == "Good\nday\\u001b]52;c;cm0gLXJmIC8=\\u0007\n"
        assert '"scratchpad": "Good\\nday\\u001b]52;c;cm0gLXJmIC8=\\u0007"' in shown(*command, "--json")
        piped = forked.run([*OPERAD_COMMAND, *command], cwd=tmp_path)
    assert piped.stdout == f"Good\nday{CLIPBOARD}\n"


@pytest.mark.parametrize(("terminal", "written"), [(True, harmless(CLIPBOARD)), (False, CLIPBOARD)])
def test_a_file_that_is_written_to_a_terminal_steers_none(monkeypatch, terminal, written):
    stdout = io.TextIOWrapper(io.BytesIO(), "utf-8")
    monkeypatch.setattr(stdout, "isatty", lambda: terminal)
    monkeypatch.setattr("sys.stdout", stdout)
    write_file("-", f"name: {CLIPBOARD}\n".encode())
    assert stdout.buffer.getvalue().decode() == f"name: {written}\n"
