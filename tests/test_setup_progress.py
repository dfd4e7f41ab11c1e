"""What set-up shows while it waits."""

import os
import re
import subprocess
import sys
import time

import pytensor
import pytest

from pymc_austerity import progress
from pymc_austerity.progress import Phases


@pytest.fixture
def shown(monkeypatch, tmp_path):
    """Return what a terminal would be sent."""
    with open(tmp_path / "terminal", "w+") as terminal:
        console = progress.Console(file=terminal, force_terminal=True, width=80)
        monkeypatch.setattr(progress, "_console", lambda: console)

        def text():
            terminal.seek(0)
            return terminal.read()

        yield text


def test_a_phase_is_shown_and_timed(shown):
    phases = Phases(True)
    with phases("Compiling"):
        assert "Compiling ..." in shown()
        time.sleep(0.02)
    assert phases.seconds["Compiling"] >= 0.02
    assert re.search(r"\(compiling \d+\.\d s\)$", str(phases))
    with pytest.raises(KeyboardInterrupt), phases("Compiling"):
        raise KeyboardInterrupt
    with phases("Compiling again"):  # an interrupted phase ends its line
        assert "Compiling again" in shown()


def test_nothing_is_shown_where_nothing_is_to_be_or_bars_are(shown):
    with Phases(False)("Compiling"), Phases(True)("Learning", has_bars=True):
        pass
    assert shown() == ""


def test_no_terminal_gets_no_frames(monkeypatch, capfd):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with Phases(True)("Compiling"):
        time.sleep(0.3)
    assert capfd.readouterr().err == ""


BUILDS = """
import pytensor, pytensor.tensor as pt
from pymc_austerity.progress import Phases

x = pt.scalar()
with Phases(False)("Compiling"):
    pytensor.function([x], x + 1, mode="NUMBA")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(pytensor.config, "generated_src_dir"), reason="PyTensor 2 has no folder for sources")
def test_no_sources_are_left_in_the_temporary_folder(tmp_path):
    env = {**os.environ, "TMPDIR": str(tmp_path), "PYTENSOR_FLAGS": ""}
    subprocess.run([sys.executable, "-c", BUILDS], check=True, env=env)
    assert list(tmp_path.iterdir()) == []
    with pytensor.config.change_flags(generated_src_dir=str(tmp_path)), Phases(False)("Compiling"):
        assert pytensor.config.generated_src_dir == str(tmp_path)
