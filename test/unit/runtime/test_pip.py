"""Messages about missing extras name a command that installs them from where this Operad came."""

import json
from importlib import metadata

import pytest

from operad.runtime.values.pip import pip_install


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Return a function that returns the command of an installation with these records."""

    def of(source=None, installer="pip"):
        files = {"INSTALLER": f"{installer}\n", "METADATA": "Name: operad\n"}
        if source:
            files["direct_url.json"] = json.dumps(source)
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        monkeypatch.setattr(metadata, "distribution", lambda _: metadata.PathDistribution(tmp_path))
        return pip_install.__wrapped__("serve")

    return of


@pytest.mark.parametrize(
    ("installer", "shown"),
    [("pip", "pip install 'operad[serve]'"), ("uv", "uv pip install 'operad[serve]'")],
)
def test_an_installation_from_the_index_gets_its_extra_from_there(command, installer, shown):
    assert command(installer=installer) == shown


@pytest.mark.parametrize(("editable", "option"), [(False, ""), (True, "-e ")])
def test_an_installation_from_a_clone_gets_its_extra_from_that_folder(command, tmp_path, editable, option):
    clone = tmp_path / "a clone"
    clone.mkdir()
    source = {"url": clone.as_uri(), "dir_info": {"editable": editable}}
    assert command(source) == f"pip install {option}'{clone}[serve]'"


def test_a_clone_that_is_gone_is_not_named(command, tmp_path):
    assert command({"url": (tmp_path / "gone").as_uri(), "dir_info": {}}) == "pip install 'operad[serve]'"


def test_sources_that_are_not_installed_name_the_index(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    assert pip_install.__wrapped__("serve") == "pip install 'operad[serve]'"
