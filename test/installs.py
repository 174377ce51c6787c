"""Install the wheel with plain pip into empty environments of every Python that is here, and run it there.

``make installs``: builds the wheel, and for each interpreter makes an environment, installs the wheel with pip and its
resolver, and runs `operad` and a small workflow from another folder. Then it checks the command that `DbgptWorkflow`
prints where dbgpt is missing. It needs a package registry; where there is none, it says so and ends with 1.
"""

import argparse
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]

SCRIPT = """
import sys
from operad.operators import Operator, OperatorConfig
from operad.runtime import DbgptWorkflow, Job, MissingExtraError, MonoModelReasoner, Workflow
from operad.runtime.testing import Say, ScriptedModel

def run(kind):
    workflow = kind(name="letters")
    workflow.add_operator(Operator(OperatorConfig(id="write", instruction="Write a letter.")))
    with ScriptedModel([Say("Dear Tom")]) as model:
        assert workflow.execute(Job(goal="goal"), MonoModelReasoner(model.model)).scratchpad == "Dear Tom"
    return workflow.engine

print(run(Workflow))
try:
    print(run(DbgptWorkflow))
except MissingExtraError as error:
    print(str(error).split(": ")[2].split("; ")[0])
"""


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Run a command and return what it prints; where it fails, show its output and end."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{shlex.join(map(str, command))} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def check(interpreter: str, wheel: Path, folder: Path) -> str:
    """Install the wheel for one Python and run it; return a line that says what was seen."""
    began = time.monotonic()
    run(interpreter, "-m", "venv", "--clear", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, wheel)
    assert "Usage: operad" in run(python.with_name("operad"), "--help", cwd=folder)
    seen = run(python, "-W", "error", "-c", SCRIPT, cwd=folder).split("\n")
    if seen[1].startswith("pip "):
        assert seen[0] == "builtin"
        run(*pip, *shlex.split(seen[1])[2:])
        assert run(python, "-W", "error", "-c", SCRIPT, cwd=folder).split() == ["dbgpt", "dbgpt"]
        engines = "built-in engine; AWEL after the command that the error prints"
    else:
        assert seen[:2] == ["dbgpt", "dbgpt"]
        engines = "AWEL"
    return f"{interpreter}: {engines}; {time.monotonic() - began:.0f} s"


def main() -> None:
    """Check every Python that was named and is here; say which are not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs="+", help="interpreters, such as python3.12")
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
        [wheel] = Path(folder).glob("*.whl")
        for interpreter in parser.parse_args().pythons:
            if (
                shutil.which(interpreter) is None
                or subprocess.run([interpreter, "-V"], capture_output=True, check=False).returncode
            ):
                print(f"{interpreter}: not installed, left out", flush=True)
            else:
                print(check(interpreter, wheel, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
