import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [built] = folder.glob("*.whl")
    return built


def test_the_wheel_holds_one_name_with_its_yaml_and_its_types(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    version = wheel.name.split("-")[1]
    assert {name.split("/")[0] for name in names} == {"operad", f"operad-{version}.dist-info"}
    assert "operad/configs/designer.yaml" in names
    pages = (
        "studio/bundle/index.html",
        "view/bundle/run.html",
        "view/bundle/runs.html",
        "view/bundle/evaluation.html",
        "api/bundle/chat.html",
        "api/bundle/inbox.html",
    )
    assert {f"operad/server/{page}" for page in pages} <= set(names)
    licences = {name.partition(".dist-info/licenses/")[2] for name in names if ".dist-info/licenses/" in name}
    assert licences == {"LICENSE", "THIRD_PARTY.md", "server/studio/bundle/LICENSES.txt"}
    assert "operad/server/studio/examples/greeting.yaml" in names
    assert not [name for name in names if name.startswith("operad/server/studio/web")]
    assert {"operad/__init__.py", "operad/__main__.py", "operad/testing.py", "operad/py.typed"} <= set(names)
    assert not [
        name
        for name in names
        if "test" in name and not name.startswith(("operad/runtime/testing", "operad/testing.py", "operad/docs/"))
    ]


@pytest.mark.slow
def test_the_wheel_runs_from_another_folder(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    script = (
        "import operad.cli.main as cli, operad.runtime.values.message as message;"
        "print(cli.__file__); print(message.__file__); cli.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "run", "designer", "--model", "embedded", "--file", "missing"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path / "site")}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert [Path(line).is_relative_to(tmp_path) for line in done.stdout.splitlines()] == [True, True]
    assert (done.returncode, done.stderr) == (2, "operad: missing: no such file\n")
