"""Settings of notes: the presets are seed 002's table, and what cannot work is refused."""

from __future__ import annotations

import pytest

from recollect.config import Config, load_config
from recollect.errors import BadConfig

# rollout, train, share, keep_share, distill.every (seed 002, table of methods)
METHODS = {
    "baseline": ("bare", None, 0.0, None, 0),
    "ec": ("mixed", "keep", 0.5, 1.0, 1),
    "ei": ("mixed", "strip", 0.5, 0.0, 1),
    "het": ("mixed", "hybrid", 0.5, 0.5, 1),
}


MIXED = ("notes.rollout=mixed",)
REMOTE = "notes.remote=http://127.0.0.1:8002"
FAILURES = ("distill.every=1", "distill.kinds=[failure]")


def loaded(*flags: str) -> Config:
    return load_config("demo", flags).config


@pytest.mark.parametrize("name", list(METHODS))
def test_the_methods_are_the_seeds(name: str) -> None:
    rollout, train, share, keep_share, every = METHODS[name]
    config = loaded(f"preset+={name}")
    assert (config.notes.rollout, config.notes.share) == (rollout, share)
    assert config.distill.every == every
    if train is not None:
        assert (config.notes.train, config.notes.keep_share) == (train, keep_share)
        assert config.notes.evaluation == "both"
        assert config.notes.clip_high == 1.0
    assert config.model == loaded().model, "on top of the demo, not instead of it"


def test_notes_are_off_by_default() -> None:
    config = Config()
    assert (config.notes.rollout, config.notes.evaluation) == ("bare", "bare")
    assert config.distill.every == 0


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("notes.template=no place",), "notes.template"),
        (('notes.template="{} {}"',), "exactly once"),
        (("notes.rollout=mixed", "notes.share=0.1"), "no guided row"),
        # Just below a sixth: in floating point the product would be 1.
        (
            ("notes.rollout=mixed", "rollout.rows_per_task=6", f"notes.share={1 / 6!r}"),
            "no guided row",
        ),
        (("notes.evaluation=mixed",), "eval.rows"),
        # 4 tasks a step: hybrid would be strip.
        ((*MIXED, "notes.train=hybrid", "notes.keep_share=0.2"), "no task that keeps its notes"),
        ((*MIXED, REMOTE, "notes.start_from=bank.db"), "Set notes.start_from=none"),
        ((*MIXED, REMOTE, "notes.retrieval=embedding"), "Set notes.retrieval=text"),
        (
            (REMOTE, "notes.start_from=bank.db", "distill.every=1", "distill.by=remote"),
            "nobody looks there",
        ),
        ((*MIXED, REMOTE, "notes.min_trust=0.6"), "remote.trust = 0.5"),
        (("notes.evaluation=all", REMOTE, "remote.trust=0.4"), "notes.min_trust = 0.5"),
        ((*MIXED, *FAILURES, "notes.min_trust=0.6"), "Set notes.min_trust to 0.5 or less"),
        (("distill.every=1", "distill.by=endpoint"), "distill.url"),
        (("distill.url=ftp://somewhere",), "distill.url"),
        (("notes.share=1.5",), "notes.share"),
        (("distill.kinds=[]",), "distill.kinds"),
        (("notes.rolout=all",), "notes.rollout"),
    ],
)
def test_what_cannot_work_is_refused(flags: tuple[str, ...], words: str) -> None:
    with pytest.raises(BadConfig) as caught:
        loaded(*flags)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "flags",
    [
        (*MIXED, "notes.train=hybrid", "notes.keep_share=0.25"),
        (*MIXED, "notes.train=hybrid", "notes.keep_share=0"),  # somebody wants none
        ("notes.train=hybrid", "notes.keep_share=0.1"),  # nobody has notes
        (*MIXED, REMOTE, "notes.min_trust=0.7", "remote.trust=0.7"),
        (REMOTE, "notes.start_from=bank.db"),  # nothing asks; the run says so
        (*MIXED, *FAILURES),
        (*FAILURES, "notes.min_trust=1"),  # written for others
        (*MIXED, *FAILURES, "notes.min_trust=1", "notes.start_from=bank.db"),
        (*MIXED, *FAILURES, "notes.min_trust=1", "store.path=shared.db"),
        (*MIXED, "distill.every=99"),  # a run that is tried out; it says so
    ],
)
def test_what_can_work_is_accepted(flags: tuple[str, ...]) -> None:
    loaded(*flags)
