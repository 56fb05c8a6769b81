"""docs/seeds.md: no empty cell, and the tests that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "seeds.md"
# Every setting, method, metric, command and printed word of the five seeds, by seed. Paths and
# variables of the originals' own code, which nobody outside of it ever sees, are not here.
NAMES = {
    "000": """task2trajectories difficulty2task_dict skip_uid_set update_difficulty2task_dict
        update_skip_uid_set_and_filter_trajectories save_trajectories_to_memory
        get_offpolicy_trajectories_from_memory sample_tasks_from_replaypool get_offpolicy_batch
        convert_offpolicy_to_cmt tokenize_steps is_experience_replay split_prompt_reponse_index
        get_extra samples_to_dataproto to_dataproto exp_mask recorded_old_log_probs
        _replace_recorded_old_log_probs compute_log_prob entropys ExperienceMixCollateFn
        experience_tasks on_policy_tasks replay_task_count exp_ratio exp_select_mode
        experience_rbound rollout_n data_id rollout_id old_log_probs""",
    "001": """train_grpo_cl model_name_or_path model_dtype batch_size_per_gpu num_steps_per_task
        cl_algorithm use_progress_bar log_interval verbose nproc_per_node run_multi_gpu.sh
        run_single_gpu.sh run_experiments.sh run_quick_test.sh run_large_batch.sh
        TRAINING_SCRIPTS_README.md TRAINING_OUTPUT_GUIDE.md tqdm wandb [EVAL] loss reward kl
        backward_transfer average_performance forgetting sequential replay 'list' Reward:
        Pass: Tool""",
    "002": """hybrid_experience_training enable val_rollout_expmode train_rollout_expmode
        rollout_expratio train_sample_expmode train_sample_keepratio experience_template
        experience_maker updated_freq val_summarizer_save actor_rollout_ref off_cliprange_high
        mixed all woexp keep discard hybrid baseline EC EI HET SWANLAB_API_KEY DASHSCOPE_API_KEY
        run_baseline_0825.sh run_debug_0825.sh ExperienceMaker""",
    "003": """ppo_v2.py USE_REPLAY_BUFFER REPLAY_BUFFER_SIZE MIN_REPLAY_SIZE REPLAY_SAMPLE_SIZE
        USE_PRIORITY_SAMPLING PRIORITY_ALPHA PRIORITY_BETA PRIORITY_BETA_INCREMENT
        MAX_REPLAY_REUSE STALENESS_THRESHOLD BATCH_SIZE PL: VL: R: BUF: EFF: buffer_size
        replay_ratio avg_sample_reuse sample_efficiency buffer_stats avg_reuse_count
        max_reuse_count avg_age oldest_sample weights.max() weighted_loss kl_divergence
        new_samples_ratio replay_samples_ratio DQN Wandb""",
    "004": """het_compute_token_on_off_policy_loss negative_approx_kl ratio pg_losses1 pg_losses2
        cliprange_low cliprange_high loss_mask agg_loss loss_agg_mode response_mask token-mean
        loss.backward() optimizer.step() get_loss_mask blackout_token_combo need_training
        llm(do_not_train) msg_token_mask old_log_prob_current old_log_prob_historical""",
}
_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def rows_with_tests() -> list[tuple[str, list[str]]]:
    """The rows of tables whose last column names a test, each with the seed that it is of."""
    found, proved, seed = [], False, ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"## Seed (\d+)", line):
            seed = heading[1]
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line[:1] == "|" else []
        if not cells:
            proved = False
        elif cells[-1] == "test":
            proved = True
        elif proved and set(cells[0]) != {"-"}:
            found.append((seed, cells))
    return found


ROWS = rows_with_tests()


def test_there_are_rows() -> None:
    assert len(ROWS) > 120


def whole(name: str) -> str:
    """Match a name by itself: `ratio` is not found in `replay_ratio`."""
    end = r"(?!\w)" if re.search(r"\w$", name) else ""
    return rf"(?<!\w){re.escape(name)}{end}"


@pytest.mark.parametrize("seed", NAMES)
def test_every_name_of_a_seed_has_a_row(seed: str) -> None:
    text = "\n".join(cells[0] for of, cells in ROWS if of == seed)
    missing = [name for name in NAMES[seed].split() if not re.search(whole(name), text)]
    assert missing == []


@pytest.mark.parametrize("cells", [cells for _, cells in ROWS], ids=lambda cells: cells[0][:40])
def test_a_row_says_where_it_is_and_what_proves_it(cells: list[str]) -> None:
    assert len(cells) == 4
    assert all(cells)
    named = _NAMED.findall(cells[-1])
    assert named, cells[-1]
    for file, test in named:
        source = (ROOT / file).read_text(encoding="utf-8")
        assert f"def {test}(" in source, f"{file}::{test}"
