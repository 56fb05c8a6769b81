from pathlib import Path

from recollect.telemetry.events import (
    EpisodeFinished,
    MinibatchFinished,
    PhaseStarted,
    RunStarted,
)
from recollect.telemetry.motion import Motion

from .samples import Clock, step


def started(clock: Clock, steps: int = 10, done: int = 0) -> Motion:
    motion = Motion(clock)
    motion.follow(RunStarted("r", Path("r"), steps, done))
    return motion


def test_the_estimate_follows_the_last_steps() -> None:
    clock = Clock()
    motion = started(clock, steps=30)
    assert motion.remaining is None
    assert motion.time_text() == "0:00:00 | ETA -:--:--"
    clock.now += 100  # the first step is slow: everything warms up
    motion.follow(step(1, 30))
    assert motion.remaining == 2900
    for number in range(2, 23):
        clock.now += 2
        motion.follow(step(number, 30))
    assert motion.remaining == 16
    clock.now += 1
    assert motion.remaining == 15
    clock.now += 1000
    assert motion.remaining == 0


def test_a_resumed_run_counts_only_what_is_left() -> None:
    clock = Clock()
    motion = started(clock, steps=10, done=8)
    clock.now += 3
    motion.follow(step(9, 10))
    assert (motion.step, motion.remaining, motion.elapsed) == (9, 3, 3)


def test_counts_belong_to_their_phase() -> None:
    clock = Clock()
    motion = started(clock)
    motion.follow(PhaseStarted(1, "collect"))
    clock.now += 2
    motion.follow(EpisodeFinished(1, 310, 768, running=64, failed=2, tokens=2468))
    assert motion.counted == (310, 768)
    assert motion.phase_text() == "310/768 episodes | 64 running | 2 failed | 1,234 tok/s | 2.0 s"
    assert motion.line().startswith("step 1/10 | collect | 310/768 episodes")
    motion.follow(PhaseStarted(1, "update"))
    assert motion.counted == (0, 0)
    assert motion.phase_text() == "0.0 s"
    motion.follow(MinibatchFinished(1, 3))
    assert motion.phase_text() == "3 minibatches | 0.0 s"


def test_after_the_last_step() -> None:
    motion = started(Clock(), steps=1)
    motion.follow(step(1, 1))
    motion.follow(PhaseStarted(1, "evaluate"))
    assert motion.line() == "last step | evaluate | 0.0 s"
