from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from recollect.train.interrupts import Interrupts, StoppedAtOnce

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")


@pytest.fixture(autouse=True)
def heeded() -> Iterator[None]:
    """Tests may have been started by nohup or in the background, where a signal is ignored."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_is_noticed_and_the_second_stops(number: int) -> None:
    with Interrupts() as interrupts:
        assert interrupts.signal is None
        os.kill(os.getpid(), number)
        assert interrupts.signal == number
        with pytest.raises(StoppedAtOnce) as stopped:
            os.kill(os.getpid(), signal.SIGTERM)
    assert stopped.value.signal == signal.SIGTERM
    assert isinstance(stopped.value, KeyboardInterrupt)


def test_handlers_are_given_back() -> None:
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    with Interrupts():
        assert signal.getsignal(signal.SIGINT) is not before[signal.SIGINT]
    assert {n: signal.getsignal(n) for n in before} == before


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts:
            os.kill(os.getpid(), signal.SIGHUP)
            assert interrupts.signal is None
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_threads_leave_signals_alone() -> None:
    seen = []

    def work() -> None:
        with Interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]
