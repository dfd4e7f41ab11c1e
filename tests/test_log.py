"""The package's log is shown as PyMC's own is."""

import logging

import pytest

from pymc_austerity.log import follows_progressbar, show_log

log = logging.getLogger("pymc_austerity")


@pytest.fixture
def show(monkeypatch, capsys):
    """Show the log as in a program that has not set up logging; what is called in a test returns what is written."""

    def begin():
        monkeypatch.setattr(logging.root, "handlers", [])  # pytest adds its own when a test begins
        monkeypatch.setattr(log, "handlers", [])
        log.setLevel(logging.NOTSET)
        show_log()
        show_log()  # a second import adds no second handler
        return lambda: capsys.readouterr().err.splitlines()

    level = log.level
    yield begin
    log.setLevel(level)


def test_messages_are_shown_once(show):
    shown = show()
    log.info("set up")
    log.debug("unseen")
    assert shown() == ["set up"]


def test_the_log_is_quiet_where_pymc_is(show):
    shown, pymc = show(), logging.getLogger("pymc")
    level = pymc.level
    pymc.setLevel(logging.ERROR)
    try:
        log.info("set up")
        log.warning("slow")
    finally:
        pymc.setLevel(level)
    log.info("set up again")
    assert shown() == ["set up again"]


def test_a_program_that_sets_up_logging_sees_no_message_twice(show, monkeypatch, caplog):
    shown = show()
    monkeypatch.setattr(logging.root, "handlers", [caplog.handler])
    log.info("set up")
    assert caplog.messages == ["set up"]
    assert shown() == []


@pytest.mark.parametrize(("progressbar", "expected"), [(True, ["set up", "slow"]), (False, ["slow"])])
def test_a_step_without_progressbar_shows_warnings_alone(show, progressbar, expected):
    shown = show()

    class Step:
        @follows_progressbar
        def __init__(self, *, progressbar=True):
            for _ in range(2):  # a model may be read twice for a step
                log.info("set up")
                log.warning("slow")

    Step(progressbar=progressbar)
    assert shown() == expected
    log.info("set up")
    log.info("set up")
    assert shown() == ["set up", "set up"]
