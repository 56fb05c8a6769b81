from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from recollect.errors import EnvironmentHung
from recollect.rollout.calls import CallFailed, GuardedCalls, describe

SHORT = 0.15  # seconds, for calls that will not come back
LONG = 20.0  # seconds, for calls that will, on however busy a machine


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Something to hang on, let go at the end."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def calls() -> Iterator[GuardedCalls]:
    guarded = GuardedCalls(LONG)
    yield guarded
    guarded.close()


def _helpers() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "recollect-environment"]


def _eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + LONG
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def _raise(error: BaseException) -> None:
    raise error


# -- answers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [7, None, "text", [1, 2], ValueError("only returned")])
def test_an_answer_is_passed_on(calls: GuardedCalls, value: object) -> None:
    assert calls(lambda: value) is value


def test_calls_run_one_after_another_in_one_thread(calls: GuardedCalls) -> None:
    seen: list[tuple[int, int]] = []
    pending = [calls.submit(lambda n=n: seen.append((n, threading.get_ident()))) for n in range(20)]
    for each in pending:
        each.result()
    assert [n for n, _ in seen] == list(range(20))
    assert len({thread for _, thread in seen}) == 1
    assert seen[0][1] != threading.get_ident()


def test_no_thread_before_the_first_call_and_none_after_closing() -> None:
    before = len(_helpers())
    guarded = GuardedCalls(LONG)
    assert len(_helpers()) == before
    assert guarded(lambda: 1) == 1
    assert len(_helpers()) == before + 1
    guarded.close()
    assert len(_helpers()) == before
    assert guarded(lambda: 2) == 2
    guarded.close()
    guarded.close()
    assert len(_helpers()) == before


# -- exceptions ------------------------------------------------------------------------------


class Rude(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("bad seat"), "ValueError: bad seat"),
        (KeyError("x"), "KeyError: 'x'"),
        (ValueError(), "ValueError"),
        (ValueError("\n\n  \n"), "ValueError"),
        (ValueError("first\nsecond"), "ValueError: first"),
        (ValueError("\n first\nsecond"), "ValueError: first"),
        (ValueError("x" * 10_000), "ValueError: " + "x" * 200),
        (ValueError("lone \ud800, \x1b[31mred\x00"), "ValueError: lone ?, ?[31mred?"),
        (Rude(), "Rude"),
        (RecursionError("deep"), "RecursionError: deep"),
        (MemoryError(), "MemoryError"),
        (StopIteration(3), "StopIteration: 3"),
        (AssertionError("no"), "AssertionError: no"),
        (SystemExit(3), "SystemExit: 3"),
        (GeneratorExit(), "GeneratorExit"),
    ],
)  # fmt: skip
def test_an_exception_becomes_a_reason(
    calls: GuardedCalls, error: BaseException, reason: str
) -> None:
    with pytest.raises(CallFailed) as failure:
        calls(lambda: _raise(error))
    assert failure.value.reason == reason
    assert describe(error) == reason
    reason.encode()  # it can be stored
    assert calls(lambda: "next") == "next"


def test_a_keyboard_interrupt_in_a_call_ends_the_run(calls: GuardedCalls) -> None:
    with pytest.raises(KeyboardInterrupt):
        calls(lambda: _raise(KeyboardInterrupt()))
    assert calls(lambda: "next") == "next"


def test_ctrl_c_while_waiting_is_not_swallowed(release: threading.Event) -> None:
    guarded = GuardedCalls(LONG)
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        guarded(release.wait)
    assert guarded(lambda: "next") == "next"  # does not queue up behind the interrupted call
    assert time.monotonic() - began < LONG / 2
    guarded.close()


# -- hangs -----------------------------------------------------------------------------------


def test_a_call_that_hangs_is_left_behind(release: threading.Event) -> None:
    guarded = GuardedCalls(SHORT)
    with pytest.raises(CallFailed, match=r"no answer within 0\.15 s"):
        guarded(release.wait)
    guarded.seconds = LONG
    assert guarded(lambda: "next") == "next"
    guarded.close()
    release.set()
    assert _eventually(lambda: not _helpers())


def test_calls_that_wait_behind_a_hanging_one_are_made_once(release: threading.Event) -> None:
    guarded = GuardedCalls(LONG)
    made: list[int] = []
    first = guarded.submit(lambda: made.append(0))
    stuck = guarded.submit(release.wait)
    others = [guarded.submit(lambda n=n: made.append(n)) for n in range(1, 6)]
    first.result()
    with pytest.raises(CallFailed, match="no answer"):
        stuck.result(SHORT)
    for other in others:
        other.result()
    release.set()
    guarded.close()
    assert _eventually(lambda: not _helpers())
    assert made == [0, 1, 2, 3, 4, 5]


def test_an_answer_that_comes_too_late_is_not_mistaken_for_another(
    release: threading.Event,
) -> None:
    guarded = GuardedCalls(SHORT)
    late = guarded.submit(lambda: release.wait() and "late")
    with pytest.raises(CallFailed):
        late.result()
    guarded.seconds = LONG
    after = guarded.submit(lambda: "after")
    release.set()
    assert after.result() == "after"
    guarded.close()


def test_python_code_that_never_ends_is_stopped() -> None:
    guarded = GuardedCalls(SHORT)

    def spin() -> None:
        while True:
            with suppress(Exception):
                sum(range(100))

    with pytest.raises(CallFailed, match="no answer"):
        guarded(spin)
    assert _eventually(lambda: not _helpers())


def test_a_thread_that_comes_back_does_not_count_as_stuck() -> None:
    guarded = GuardedCalls(0.02, max_stuck=3)
    for _ in range(10):
        with pytest.raises(CallFailed):
            guarded(lambda: time.sleep(0.06))
        assert _eventually(lambda: not _helpers())


def test_too_many_stuck_threads_end_the_run(release: threading.Event) -> None:
    guarded = GuardedCalls(0.02, max_stuck=3)
    for _ in range(3):
        with pytest.raises(CallFailed):
            guarded(release.wait)
    with pytest.raises(EnvironmentHung, match="4 environment calls gave no answer"):
        guarded(release.wait)
    release.set()
    assert _eventually(lambda: not _helpers())


def test_an_answer_at_the_last_moment_counts_or_does_not_but_never_half() -> None:
    # The answer comes at about the moment we give up; whatever happens, the next one is right.
    guarded = GuardedCalls(0.005)
    outcomes = set()
    for n in range(60):
        try:
            guarded.seconds = 0.005
            assert guarded(lambda n=n: time.sleep(0.0045) or n) == n
            outcomes.add("answer")
        except CallFailed:
            outcomes.add("late")
        guarded.seconds = LONG
        assert guarded(lambda n=n: n * 2) == n * 2
    guarded.close()
    assert outcomes <= {"answer", "late"}
    assert _eventually(lambda: not _helpers())
