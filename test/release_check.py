"""Check a release: what is built, and that it installs and runs in empty environments of every Python that is here.

``make release-check`` builds the wheel and the sdist and checks their metadata and links. Then, for each interpreter and
each of the two, it makes an environment, installs with plain pip, and runs the quick start from another folder: what
`operad init` writes, a small workflow, and the command that `DbgptWorkflow` prints where dbgpt is missing. It lists the
licences of all that was installed. Last, it installs each extra alone, and all of them, where no compiler can be found. It
needs a package registry; a failure is one line, and exit status 1.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.metadata import Metadata

ROOT = Path(__file__).parents[1]

SCRIPT = """
import sys
from operad import Operator, Workflow
from operad.runtime import DbgptWorkflow, MissingExtraError
from operad.runtime.testing import Say, ScriptedModel

def run(kind):
    with ScriptedModel([Say("Dear Tom")]) as model:
        workflow = kind(Operator("Write a letter.", id="write"), model=model.model, name="letters")
        assert workflow.run("goal").text == "Dear Tom"
    return workflow.engine

print(run(Workflow))
try:
    print(run(DbgptWorkflow))
except MissingExtraError as error:
    print(str(error).split(": ")[2].split("; ")[0])
"""

LICENCES = """
import json
from importlib.metadata import distributions

def licence(each):
    said = [name.rpartition(" :: ")[2] for name in each.get_all("Classifier") or () if name.startswith("License ::")]
    text = each.get("License") or ""
    return each.get("License-Expression") or "; ".join(said) or (text if 0 < len(text) < 60 else text[:60].partition(chr(10))[0])

print(json.dumps({each.metadata["Name"]: licence(each.metadata) for each in distributions()}))
"""

PERMISSIVE = re.compile(
    r"apache|mit\b|bsd|isc|psf|python software|mpl|mozilla|unlicense|zlib|0bsd|cc0|hpnd|public domain", re.I
)
"""Licences that put no terms on programs that use a package; MPL is of single files."""

READ_BY_HAND = {"dbgpt": "MIT: its LICENSE file; the metadata names none"}
"""Packages whose metadata name no licence, with the licence that their files have."""

COPYLEFT_LIBRARIES = {"chardet"}
"""Under the LGPL, which puts no terms on programs that use a library unchanged; dbgpt needs it, where AWEL is."""


def run(*command: str | Path, cwd: Path = ROOT, environment: Mapping[str, str] | None = None) -> str:
    """Run a command and return what it prints; where it fails, show its output and end."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        sys.exit(f"{shlex.join(map(str, command))} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def expect(holds: object, fault: str) -> None:
    """End with a line where something does not hold."""
    if not holds:
        sys.exit(f"release-check: {fault}")


def check_files(wheel: Path, sdist: Path) -> str:
    """Check metadata, contents and links of what was built; return a line on them."""
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        [described] = [name for name in names if name.endswith(".dist-info/METADATA")]
        metadata = Metadata.from_email(packed.read(described), validate=True)
    with tarfile.open(sdist) as packed:
        sources = {name.partition("/")[2] for name in packed.getnames()}
    [version] = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)[:1]
    expect(str(metadata.version) == version, f"the version is {metadata.version}, CHANGELOG.md begins with {version}")
    expect(metadata.license_expression and metadata.license_files, "the metadata name no licence")
    expect(metadata.description_content_type == "text/markdown", "the README is not said to be Markdown")
    others = {name.partition("/")[0] for name in names} - {"operad", described.partition("/")[0]}
    expect(not others, f"the wheel holds {sorted(others)} beside operad")
    readme = (ROOT / "README.md").read_text("utf-8")
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", readme) if "://" not in link]
    lost = [link for link in links if link not in sources and not any(name.startswith(f"{link}/") for name in sources)]
    expect(not lost, f"the sdist lacks what README.md links to: {', '.join(lost)}")
    sizes = ", ".join(f"{each.name} {each.stat().st_size / 2**20:.1f} MiB" for each in (wheel, sdist))
    return f"{sizes}; {len(links)} links of the README lead to files"


def check_install(interpreter: str, built: Path, folder: Path) -> str:
    """Install what was built for one Python and run it; return a line that says what was seen."""
    began = time.monotonic()
    home = folder / "home"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    run(interpreter, "-m", "venv", "--clear", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    operad = python.with_name("operad")
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, built)
    expect("Usage: operad" in run(operad, "--help", cwd=home), f"{built.name}: operad --help has no usage")
    run(operad, "init", cwd=home)
    run(operad, "check", "expert.yaml", cwd=home)
    expect(run(python, "expert.py", cwd=home).strip(), f"{built.name}: the program of operad init prints nothing")
    seen = run(python, "-W", "error", "-c", SCRIPT, cwd=home).split("\n")
    engines = "AWEL"
    if seen[1].startswith("pip "):
        expect(seen[0] == "builtin", f"{built.name}: the engine without dbgpt is {seen[0]}")
        run(*pip, *shlex.split(seen[1])[2:])
        seen = run(python, "-W", "error", "-c", SCRIPT, cwd=home).split("\n")
        engines = "built-in engine; AWEL after the command that the error prints"
    expect(seen[:2] == ["dbgpt", "dbgpt"], f"{built.name}: with dbgpt the engines are {seen[:2]}")
    return f"{interpreter}, {built.suffix.removeprefix('.')}: {engines}; {time.monotonic() - began:.0f} s"


def check_extras(interpreter: str, wheel: Path, folder: Path) -> Iterator[str]:
    """Install each extra alone, and all of them, without a compiler; yield a line with time and size for each."""
    with zipfile.ZipFile(wheel) as packed:
        [described] = [name for name in packed.namelist() if name.endswith(".dist-info/METADATA")]
        extras = Metadata.from_email(packed.read(described), validate=True).provides_extra or []
    place = folder / "extras"
    without = {**os.environ, "PATH": str(place / "bin"), "CC": "none", "CXX": "none"}
    for extra in ["", *extras, ",".join(extras)]:
        run(interpreter, "-m", "venv", "--clear", place)
        began = time.monotonic()
        pip = (
            place / "bin" / "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-compile",
            "--disable-pip-version-check",
        )
        run(*pip, f"{wheel}[{extra}]" if extra else wheel, environment=without)
        size = sum(each.stat().st_size for each in place.rglob("*") if each.is_file() and not each.is_symlink())
        named = "all extras" if "," in extra else extra or "no extra"
        yield f"{interpreter}, {named}: {time.monotonic() - began:.0f} s, {size / 2**20:.0f} MiB"


def check_licences(folder: Path) -> str:
    """Check the licences of all packages of the last environment; return how many packages have which."""
    found: dict[str, str] = json.loads(run(folder / "venv" / "bin" / "python", "-c", LICENCES))
    found |= {name: READ_BY_HAND[name] for name in found if name in READ_BY_HAND and not found[name]}
    other = {
        name: licence
        for name, licence in found.items()
        if name not in COPYLEFT_LIBRARIES and not PERMISSIVE.search(licence)
    }
    expect(not other, f"packages without a permissive licence: {other}")
    counts = Counter(found.values()).most_common()
    return f"{len(found)} packages: " + ", ".join(f"{count} {licence}" for licence, count in counts)


def main() -> None:
    """Check what is built on every Python that was named and is here; say which are not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs="+", help="interpreters, such as python3.12")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(sys.executable, "-m", "hatchling", "build", "-d", folder)
        [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
        print(check_files(wheel, sdist), flush=True)
        for interpreter in parser.parse_args().pythons:
            if (
                shutil.which(interpreter) is None
                or subprocess.run([interpreter, "-V"], capture_output=True, check=False).returncode
            ):
                print(f"{interpreter}: not installed, left out", flush=True)
                continue
            for built in (wheel, sdist):
                print(check_install(interpreter, built, folder), flush=True)
            print(check_licences(folder), flush=True)
            for line in check_extras(interpreter, wheel, folder):
                print(line, flush=True)


if __name__ == "__main__":
    main()
