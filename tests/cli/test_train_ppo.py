"""`recollect train ppo --preset NAME`: seed 003's five scenarios, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recollect.config import load_config
from recollect.telemetry.reading import read_metrics
from train.small import settings

from .conftest import assert_refused, invoke

# Rows a step, the first step that replays at 64 rows a step, and the limits: uses, rows, age.
PRESETS = {
    "off": (0, None, None, None, None),
    "standard": (32, 3, 4, 1000, 100),
    "high-efficiency": (64, 5, 8, 2000, 200),
    "prioritized": (32, 3, 4, 1000, 100),
    "conservative": (16, 2, 2, 500, 50),
}


@pytest.mark.parametrize("name", PRESETS)
def test_on_the_desk(here: Path, name: str) -> None:
    """The built-in model and domains; settings on top of the preset make it a small run."""
    flags = ["run.steps=3", "rollout.tasks_per_step=2", "rollout.rows_per_task=2"]
    flags += ["environment.options.size=4", "environment.levels=[1]", "eval.every=0"]
    flags += ["rollout.max_turns=2", "rollout.max_turn_tokens=12", "replay.start_rows=4"]
    flags += ["train.minibatches=1"]
    result = invoke("train", "ppo", "--preset", name, *flags)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"run ppo-{name}-1 | tiny on desk | 3 steps")
    line = next(each for each in result.stdout.splitlines() if each.startswith("step 3/3"))
    words = ["PL:", "VL:", "R:", *(["BUF:8", "EFF:"] if name != "off" else [])]
    assert all(word in line for word in words), line
    assert ("BUF:" in line) == (name != "off")
    steps = read_metrics(here / "runs" / f"ppo-{name}-1").steps
    drawn = [each.metrics.get("replay/uses", 0.0) for each in steps]
    assert drawn[0] == 0.0
    assert (sum(drawn) > 0) == (name != "off")


def jsonl(folder: Path) -> list[str]:
    """Prompts and a reward function of one's own."""
    lines = [{"prompt": f"Say {letter}.", "letter": letter} for letter in "abcdefghijklmnopqrst"]
    (folder / "prompts.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (folder / "judge.py").write_text(
        "def judge(text, fields):\n"
        "    return min(1.0, text.count(fields['letter']) + len(text) / 20)\n"
    )
    return [
        f"environment.name=single_turn:{folder / 'prompts.jsonl'}",
        "environment.levels=none",  # the preset's are the desk's
        f"environment.options.reward={folder / 'judge.py'}:judge",
    ]


@pytest.mark.parametrize("name", PRESETS)
def test_on_prompts_of_ones_own(model: Path, here: Path, name: str) -> None:
    """The presets as they are, 64 rows a step: replay starts when it should, in its amounts."""
    rows, first, uses, capacity, age = PRESETS[name]
    sizes = ["rollout.tasks_per_step=8", "rollout.rows_per_task=8", "rollout.batch_rows=64"]
    sizes += ["run.steps=5", "eval.every=0", "checkpoint.every=0", "rollout.max_turn_tokens=4"]
    flags = [*settings(model, *sizes), *jsonl(here)]
    result = invoke("train", "ppo", "--preset", name, *flags)
    assert result.exit_code == 0, result.output
    steps = read_metrics(here / "runs" / f"ppo-{name}-1").steps
    drawn = [int(line.metrics.get("replay/draws", 0)) for line in steps]
    starts = [0 if first is None or step < first else rows for step in range(1, 6)]
    assert drawn == starts
    if name != "off":
        config = load_config("ppo", [f"preset+={name}"]).config
        pool = config.pool
        assert (pool.max_uses, pool.max_rows, pool.max_age) == (uses, capacity, age)
        last = steps[-1].metrics
        assert last["replay/ratio"] == pytest.approx((5 * 64 + sum(drawn)) / (5 * 64))
        assert last["replay/used_total"] == sum(drawn)


def test_the_prioritized_preset_draws_by_priority(here: Path) -> None:
    draw = load_config("ppo", ["preset+=prioritized"]).config.draw
    assert (draw.priority, draw.alpha, draw.beta, draw.beta_growth) == (
        "advantage", 0.6, 0.4, 0.001)  # fmt: skip
    assert load_config("ppo", ["preset+=standard"]).config.draw.priority == "equal"


@pytest.mark.parametrize(
    ("preset", "flags", "words"),
    [
        (
            "high-efficiency",
            ["run.steps=4"],
            ["replay.start_rows = 200", "(4 - 1) x", "that is 96", "run.steps to 8 or more"],
        ),
        (
            "standard",
            ["rollout.tasks_per_step=1", "rollout.rows_per_task=2"],
            ["replay.start_rows = 100", "(32 - 1) x", "that is 62"],
        ),
        ("standard", ["pool.max_rows=80"], ["pool.max_rows = 80 are kept"]),
        (
            "conservative",
            ["train.epochs=4", "train.minibatches=16"],
            ["pool.max_age = 50", "4 x train.minibatches = 16", "64 updates"],
        ),
    ],
)
def test_a_preset_that_cannot_start_is_refused_with_the_arithmetic(
    here: Path, preset: str, flags: list[str], words: list[str]
) -> None:
    result = invoke("train", "ppo", "--preset", preset, *flags)
    assert_refused(result, *words)
    assert not (here / "runs").exists()


def test_a_preset_goes_below_a_file_and_below_settings(here: Path) -> None:
    (here / "mine.yaml").write_text("preset: ppo\npool:\n  max_uses: 3\n")
    result = invoke(
        "train", "mine.yaml", "--preset", "standard", "pool.max_age=70", "--dry-run", "--json"
    )
    config = json.loads(result.stdout)
    assert config["algo"]["advantage"] == "gae"
    assert config["replay"]["buffer_rows"] == 32
    assert (config["pool"]["max_uses"], config["pool"]["max_age"]) == (3, 70)
    assert_refused(invoke("train", "ppo", "--preset", "standart"), "standart", "standard")
