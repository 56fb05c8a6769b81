"""Seed 001's command: its flags, its scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recollect.config.loading import load_config
from recollect.scripts.flags import parser, settings_of
from recollect.scripts.train_grpo_cl import main

ROOT = Path(__file__).parents[2]
# The seed's two torchrun commands, after the module's name.
BASIC = """--model_name_or_path Qwen/Qwen2.5-3B-Instruct --model_dtype bfloat16
    --batch_size_per_gpu 4 --num_steps_per_task 100 --cl_algorithm replay --use_progress_bar
    --log_interval 10"""
DEBUG = """--model_name_or_path Qwen/Qwen2.5-3B-Instruct --verbose --no-use_progress_bar
    --log_interval 1"""
ALL = """model_name_or_path model_dtype temperature max_new_tokens num_samples_per_prompt kl_coef
    gamma
    batch_size_per_gpu gradient_accumulation_steps num_steps_per_task learning_rate warmup_steps
    max_grad_norm cl_algorithm replay_buffer_size replay_ratio task_order max_tasks_per_domain
    train_split log_dir save_interval eval_interval wandb_project use_flash_attention
    gradient_checkpointing resume_from user_model use_local_user_model user_model_temperature
    verbose log_interval use_progress_bar save_trajectory_logs trajectory_log_interval"""


def config_of(text: str, world_size: int = 1):  # type: ignore[no-untyped-def]
    flags = parser().parse_args(text.split())
    return load_config("domains", settings_of(flags, world_size)).config


def test_the_seeds_commands_are_understood() -> None:
    config = config_of(BASIC, world_size=4)
    assert config.model.name == "Qwen/Qwen2.5-3B-Instruct"
    assert config.continual.method == "replay"
    assert (config.run.steps, config.rollout.tasks_per_step, config.train.minibatches) == (
        100,
        16,
        2,
    )
    assert (config.rollout.rows_per_task, config.algo.kl_coef) == (4, 0.1)
    assert config.train.learning_rate == 1e-6
    assert config.eval.every == 5
    flags = parser().parse_args(DEBUG.split())
    assert flags.verbose
    assert not flags.use_progress_bar
    assert flags.log_interval == 1


def test_every_flag_is_there_in_both_spellings() -> None:
    made = parser()
    known = {option for action in made._actions for option in action.option_strings}
    assert {f"--{name}" for name in ALL.split()} <= known
    for off in ("no_flash_attention", "no_gradient_checkpointing", "no_local_user_model",
                "no_progress_bar", "no_trajectory_logs", "no_use_progress_bar"):  # fmt: skip
        assert f"--{off}" in known
    flags = made.parse_args(["--log-interval=3", "--task-order", "retail", "airline"])
    assert (flags.log_interval, flags.task_order) == (3, ["retail", "airline"])


def test_tasks_are_divided_as_the_seed_divides_them() -> None:
    config = config_of("--max_tasks_per_domain 3 --batch_size_per_gpu 2")
    assert (config.environment.tasks, config.eval.tasks) == (2, 1)


def test_domains_of_tau2_can_be_chosen_instead_of_desks(monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of("--environment tau2 --domains retail telecom")
    assert (config.environment.name, config.environment.levels) == ("tau2", None)
    assert config.continual.task_order == ("retail", "telecom")
    assert config.environment.options == {}
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:9/v1")
    config = config_of("--environment tau2 --user_model qwen --user_model_temperature 0.5")
    assert config.environment.options == {
        "user": "endpoint",
        "user_model": "qwen",
        "user_url": "http://localhost:9/v1",
        "user_temperature": 0.5,
    }
    given = "--environment tau2 --user_model qwen --user_model_url http://here/v1"
    assert config_of(given).environment.options["user_url"] == "http://here/v1"
    assert config_of("--user_model qwen").environment.options == {}  # desks have scripted users


def test_settings_of_ours_win() -> None:
    config = config_of("--num_steps_per_task 5 run.steps=7")
    assert config.run.steps == 7


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ("--gamma 0.9", "discount"),
        ("--train_split 1.5", "0 and 1"),
        ("--task_order moon", "moon"),
        ("--batch_size_per_gpu 0", "--batch_size_per_gpu 0"),
        ("--max_new_tokens 0", "--max_new_tokens 0"),
        ("--max_tasks_per_domain -3", "--max_tasks_per_domain -3"),
        ("--log_interval 0", "--log_interval 0"),
        ("--user_model_url http://here/v1", "Name the model"),
        ("--user_model_temperature 0.5", "Name the model"),
        ("--batch_size_per_gpu 7", "28 rows"),
        ("--save_trajectory_logs --trajectory_log_interval 0", "whole number from 1"),
    ],
)
def test_what_cannot_be_had_is_refused(
    given: str, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*given.split(), "--log_dir", str(tmp_path / "r")]) == 2
    assert word in capsys.readouterr().err


@pytest.mark.parametrize(
    ("others", "named"),
    [
        ("--cl_algorithm ewc", "Leave --cl_algorithm out"),
        ("--cl-algorithm=sequential --seed 0", "Leave --cl_algorithm, --seed out"),
        ("--no_gradient_checkpointing", "Leave --gradient_checkpointing out"),
        ("run.steps=7", "Leave key=value out"),
    ],
)
def test_a_run_goes_on_with_its_own_settings(
    others: str, named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*others.split(), "--resume_from", str(tmp_path)]) == 2
    assert named in capsys.readouterr().err


def test_what_is_shown_of_a_resumed_run_can_be_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = "--verbose --log-interval 3 --no-use_progress_bar --save_trajectory_logs"
    assert main([*shown.split(), "--resume_from", str(tmp_path)]) == 2
    assert "there is no continual run in" in capsys.readouterr().err


# The seed's own calls, and what is trained by each.
SCRIPTS = {
    "run_multi_gpu.sh 4 replay": ["replay"],
    "run_single_gpu.sh replay": ["replay"],
    "run_experiments.sh 4": ["sequential", "replay", "ewc", "fusion"],
    "run_quick_test.sh replay": ["replay"],
    "run_quick_test.sh sequential": ["sequential"],
    "run_large_batch.sh": ["replay"],
}


def test_every_script_is_called() -> None:
    scripts = {path.name for path in (ROOT / "scripts").glob("run_*.sh")}
    assert scripts == {call.split()[0] for call in SCRIPTS}


@pytest.mark.parametrize("call", SCRIPTS)
def test_scripts_call_the_command_with_flags_that_it_knows(call: str, tmp_path: Path) -> None:
    """A stand-in for Python prints what it is called with; every call is then parsed."""
    stub = tmp_path / "python"
    stub.write_text('#!/bin/sh\nprintf "%s " "$@"; echo\n')
    stub.chmod(0o755)
    environment = {**os.environ, "PYTHON": str(stub)}
    script, *arguments = call.split()
    done = subprocess.run(
        ["bash", str(ROOT / "scripts" / script), *arguments],
        capture_output=True, text=True, env=environment, check=True, timeout=60,
    )  # fmt: skip
    calls = [line for line in done.stdout.splitlines() if "train_grpo_cl" in line]
    trained = []
    for line in calls:
        flags = parser().parse_args(line.partition("train_grpo_cl")[2].split())
        load_config("domains", settings_of(flags, 1))
        trained.append(flags.cl_algorithm)
    assert trained == SCRIPTS[call]


def test_the_quick_test_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "recollect.scripts.train_grpo_cl", "--cl_algorithm", "replay",
               "--batch_size_per_gpu", "2", "--gradient_accumulation_steps", "1",
               "--num_samples_per_prompt", "2", "--num_steps_per_task", "2",
               "--max_tasks_per_domain", "3", "--task_order", "airline", "retail",
               "--replay_ratio", "0.3", "--eval_interval", "2", "--max_new_tokens", "40",
               "--log_dir", str(tmp_path / "quick"), "--save_trajectory_logs",
               "environment.options={size: 12}"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    for line in ("Initializing GRPO Trainer", "CL Algorithm: replay", "Task 1: RETAIL",
                 "Training on 2 tasks from airline domain", "[EVAL] Task 0 Step 2 | Reward: ",
                 "Training completed successfully!"):  # fmt: skip
        assert line in done.stdout, done.stdout
    assert (tmp_path / "quick" / "metrics.json").is_file()
    logs = sorted((tmp_path / "quick" / "trajectory_logs").iterdir())
    assert [log.name for log in logs] == ["00-airline.jsonl", "01-retail.jsonl"]
    assert all(log.stat().st_size > 0 for log in logs)
