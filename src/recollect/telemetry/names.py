"""Every metric name, once, with its unit, its good direction and what it measures.

A name reads `<room>/<metric>[/<domain>][/<level>]`. Nothing else should be logged: `Fanout` warns
of the rest, and docs/metrics.md is written from this table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Direction = Literal["up", "down"]

ROOMS = {
    "train": "the optimiser's side of a step",
    "reward": "what the step's rollouts earned",
    "critic": "what was expected, and how wrong that was (PPO only)",
    "policy": "how far the policy moved, and how sure it is",
    "rollout": "what was generated",
    "replay": "what was drawn from the pool, and what it did",
    "continual": "what a method against forgetting does",
    "notes": "what notes did in the step's prompts, and what became of them",
    "eval": "held-out tasks",
    "time": "where a step's seconds went",
    "perf": "speed",
    "health": "what went wrong and was survived",
}

# The phases of a step (design §4), each with its `time/` metric, and what may follow it.
STEP_PHASES = ("plan", "collect", "draw", "commit", "score", "update", "record")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: `<domain>` and `<level>` in the name stand for any domain and level.

    `better` says which way is good, None if neither is. `measured` marks readings of the
    clock or of other programs, the only ones that differ when a run is repeated exactly.
    """

    name: str
    unit: str
    better: Direction | None
    text: str
    measured: bool = False

    @property
    def room(self) -> str:
        """The part of the name before the first slash."""
        return self.name.partition("/")[0]


def _seconds(phase: str, text: str) -> Metric:
    return Metric(f"time/{phase}", "s", "down", text, measured=True)


METRICS: tuple[Metric, ...] = (
    Metric(
        "train/loss",
        "",
        None,
        "Loss of the step, mean over its optimiser updates; the critic's is not in it. PL in a "
        "PPO run's line.",
    ),
    Metric("train/grad_norm", "", None, "Norm of the gradient before clipping."),
    Metric("train/learning_rate", "", None, "Learning rate of the step's last update."),
    Metric("train/tokens", "tokens", None, "Sampled tokens that carried gradient."),
    Metric("train/rows", "rows", None, "Rows that carried gradient."),
    Metric(
        "train/skipped_steps",
        "updates",
        "down",
        "Updates of this step that were skipped because loss or gradient was not finite.",
    ),
    Metric("reward/mean", "", "up", "Mean reward of the step's fresh rows."),
    Metric("reward/std", "", None, "Standard deviation of the reward over the fresh rows."),
    Metric("reward/success", "share", "up", "Share of the fresh rows that succeeded."),
    Metric(
        "reward/dead_groups",
        "share",
        "down",
        "Share of groups with no signal as they trained: all rewards equal, so every advantage is "
        "0. Always 0 with a critic, which needs no other rows to compare with.",
    ),
    Metric("reward/mean/<domain>", "", "up", "Mean reward of the fresh rows of one domain."),
    Metric("reward/success/<domain>", "share", "up", "Success among one domain's fresh rows."),
    Metric("critic/loss", "", "down", "Value loss, mean over the step's updates: VL in the line."),
    Metric("critic/grad_norm", "", None, "Norm of the critic's gradient before clipping."),
    Metric(
        "critic/explained_variance",
        "",
        "up",
        "1 - Var(return - value) / Var(return) over fresh tokens, before the step's updates: 1 = "
        "the critic knew, 0 = no better than the mean. Left out where returns do not vary.",
    ),
    Metric("critic/value", "", None, "Mean value of the states before fresh tokens."),
    Metric("critic/return", "", None, "Mean return of fresh tokens, which the critic learns."),
    Metric(
        "critic/td_error",
        "",
        "down",
        "Mean size of the critic's one-token errors over fresh rows, whatever their lengths.",
    ),
    Metric(
        "critic/advantage",
        "",
        None,
        "Mean size of advantages before whitening over fresh rows, whatever their lengths.",
    ),
    Metric(
        "policy/kl",
        "nats/token",
        "down",
        "Estimated KL of the policy from the one that sampled the fresh rows, while it trains on "
        "them: how far the step's updates moved it.",
    ),
    Metric("policy/entropy", "nats/token", None, "Mean entropy of the sampled tokens."),
    Metric("policy/ratio_max", "", "down", "Largest policy ratio, now / behaviour, of a token."),
    Metric("policy/clip_share", "share", "down", "Share of trained tokens the loss clipped."),
    Metric(
        "policy/logprob_diff",
        "nats/token",
        "down",
        "Mean absolute difference between the trainer's and the sampler's log-probabilities "
        "of the same tokens, before the step's first update.",
    ),
    Metric("rollout/rows", "rows", None, "Rollouts generated in this step."),
    Metric("rollout/rows_total", "rows", None, "Rollouts generated since the run began."),
    Metric(
        "rollout/failed", "rows", "down", "Episodes of this step that failed; they never train."
    ),
    Metric("rollout/tokens", "tokens", None, "All tokens of the rollouts, prompts included."),
    Metric("rollout/sampled_tokens", "tokens", None, "Tokens that the policy sampled."),
    Metric("rollout/turns", "turns", None, "Mean assistant turns of a rollout."),
    Metric("rollout/length", "tokens", None, "Mean sampled tokens of a rollout."),
    Metric("rollout/truncated", "share", "down", "Share of rollouts cut by a limit."),
    Metric(
        "rollout/mismatch_mean",
        "",
        None,
        "Mean ratio of the trainer's to vLLM's probability of the same fresh token, before the "
        "step's first update; 1 where they agree. Only with rollout.engine vllm or vllm-server.",
    ),
    Metric("rollout/mismatch_p99", "", "down", "99 % quantile of these ratios."),
    Metric("rollout/mismatch_max", "", "down", "Largest of these ratios."),
    Metric(
        "rollout/mismatch_capped",
        "share",
        "down",
        "Share of fresh tokens whose ratio was above rollout.mismatch_cap.",
    ),
    Metric("replay/pool_rows", "rows", None, "Stored rows when the step began: BUF in the bar."),
    Metric("replay/pool_bytes", "bytes", None, "Their size as pool.max_bytes counts it."),
    Metric("replay/eligible", "rows", None, "Rows that could be drawn beyond those that were."),
    Metric("replay/retired", "tasks", None, "Tasks at rest because their last group was solved."),
    Metric("replay/bucket/<bucket>", "tasks", None, "Tasks by success rate of their last group."),
    Metric(
        "replay/ratio",
        "",
        "up",
        "Replay ratio: rows trained over rows generated, since the run began; a row counts once "
        "a step. EFF in the bar.",
    ),
    Metric("replay/saved", "rows", "up", "Rollouts that stored rows stood in for, in all."),
    Metric("replay/draws", "rows", None, "Stored rows drawn in this step."),
    Metric("replay/uses", "rows", None, "Those of them that an update applied."),
    Metric("replay/dropped", "rows", "down", "Drawn rows left out: drifted, or without signal."),
    Metric("replay/mixed", "rows", None, "Stored rows that joined the group of a replay task."),
    Metric("replay/repaired", "groups", None, "Groups without a success that got a stored one."),
    Metric("replay/buffered", "rows", None, "Stored rows in extra updates."),
    Metric("replay/age_mean", "updates", None, "Mean age of the drawn rows."),
    Metric("replay/age_max", "updates", None, "Age of the oldest drawn row."),
    Metric("replay/pool_age_mean", "updates", None, "Mean age of the rows in the pool."),
    Metric("replay/pool_age_max", "updates", None, "Age of the oldest row in the pool."),
    Metric("replay/used_total", "rows", None, "Uses of stored rows since the run began."),
    Metric("replay/uses_mean", "uses", None, "Mean uses of the rows in the pool."),
    Metric("replay/uses_max", "uses", None, "Most uses of a row in the pool."),
    Metric("replay/loss", "", None, "Part of train/loss that comes from stored rows."),
    Metric("replay/loss_fresh", "", None, "The other part."),
    Metric("replay/ratio_mean", "", None, "Mean policy ratio of replayed tokens."),
    Metric("replay/ratio_p50", "", None, "Median policy ratio of replayed tokens."),
    Metric("replay/ratio_p99", "", "down", "99 % quantile of their policy ratios."),
    Metric("replay/ratio_max", "", "down", "Largest policy ratio of a replayed token."),
    Metric(
        "replay/ess",
        "share",
        "up",
        "Effective sample size of replayed tokens, (sum r)^2 / (n sum r^2): 1 = as good as fresh.",
    ),
    Metric(
        "replay/kl",
        "nats/token",
        "down",
        "Estimated KL of the policy from those that sampled the replayed tokens.",
    ),
    Metric("replay/level", "share", None, "Part of the configured replay in force (adapt)."),
    Metric("replay/max_age", "updates", None, "Age limit in force (adapt)."),
    Metric("replay/max_uses", "uses", None, "Use limit in force (adapt)."),
    Metric("replay/max_rows", "rows", None, "Capacity of the pool in force (adapt)."),
    Metric("replay/clip_share", "share", "down", "Share of replayed tokens the correction cut."),
    Metric(
        "replay/push",
        "",
        None,
        "Sum of advantages left unbalanced by rows that only shift the mean (participation "
        "baseline); 0 otherwise.",
    ),
    Metric(
        "continual/penalty",
        "",
        None,
        "Penalty on weights that earlier domains need, in the last update (ewc methods).",
    ),
    Metric("notes/live", "notes", None, "Notes that attempts can be given."),
    Metric("notes/added", "notes", None, "Notes that entered the bank at this step."),
    Metric("notes/retired", "notes", None, "Notes that were retired after it."),
    Metric("notes/questions", "groups", None, "Groups whose distillation was due at this step."),
    Metric("notes/unwritten", "groups", "down", "Those of them that no note came of."),
    Metric("notes/tries", "requests", None, "How often a writer was asked for them."),
    Metric(
        "notes/wait",
        "s",
        "down",
        "How long the step waited for notes to be written.",
        measured=True,
    ),
    Metric("notes/remote_asked", "questions", None, "Questions put to the service of notes."),
    Metric(
        "notes/remote_failed",
        "questions",
        "down",
        "Those that it did not answer: their attempts went without notes.",
    ),
    Metric("notes/remote_tries", "requests", None, "How often it was asked for them."),
    Metric(
        "notes/remote_refused",
        "notes",
        "down",
        "Notes of the service that were not taken: malformed, or learnt from evaluated tasks.",
    ),
    Metric(
        "notes/remote_wait",
        "s",
        "down",
        "How long the step waited for its answers.",
        measured=True,
    ),
    Metric(
        "notes/remote_sent",
        "rows",
        None,
        "Attempts that the service was sent to learn from, so far.",
        measured=True,
    ),
    Metric(
        "notes/remote_lost",
        "rows",
        "down",
        "Attempts that it should have been sent and was not, so far.",
        measured=True,
    ),
    Metric("notes/guided", "rows", None, "Fresh rows with notes in their prompts."),
    Metric("notes/success", "share", "up", "Share of them that succeeded."),
    Metric(
        "notes/bare_success",
        "share",
        "up",
        "Share of the rows without notes that succeeded, in groups where others had some.",
    ),
    Metric("notes/gain", "share", "up", "Difference of the two: what notes bought."),
    Metric("notes/stripped", "rows", None, "Rows that trained without the notes they had."),
    Metric(
        "notes/distilled",
        "rows",
        None,
        "Stripped rows that were learnt as they are, because their ratios were too uneven.",
    ),
    Metric("notes/loss", "", None, "Part of the loss that stripped rows have."),
    Metric(
        "notes/ratio_mean",
        "",
        None,
        "Mean policy ratio of stripped tokens: now without notes, over then with them.",
    ),
    Metric("notes/ratio_p50", "", None, "Its median."),
    Metric("notes/ratio_p99", "", None, "Its 99 % quantile."),
    Metric("notes/ratio_max", "", None, "The largest."),
    Metric("notes/ess", "share", "up", "Effective sample size of these ratios."),
    Metric("notes/clip_share", "share", "down", "Stripped tokens whose weight a bound decided."),
    Metric("eval/guided_success", "share", "up", "Success of held-out attempts with notes."),
    Metric("eval/guided_tasks", "tasks", None, "Held-out attempts behind that."),
    Metric("eval/guided_success/<domain>", "share", "up", "The same on one domain."),
    Metric("eval/success", "share", "up", "Success over all held-out tasks that were tried."),
    Metric("eval/reward", "", "up", "Mean reward over all held-out tasks that were tried."),
    Metric("eval/floor", "share", None, "What the best agent without skill scores on them."),
    Metric("eval/tasks", "tasks", None, "Held-out attempts behind the score."),
    Metric("eval/success/<domain>", "share", "up", "Success on one domain."),
    Metric("eval/reward/<domain>", "", "up", "Mean reward on one domain."),
    Metric("eval/success/<domain>/<level>", "share", "up", "Success on one level of a domain."),
    _seconds("plan", "Choosing the step's tasks."),
    _seconds("draw", "Choosing stored rows; 0 without replay."),
    _seconds("collect", "Generating rollouts, environments included."),
    _seconds("commit", "Storing the fresh rows durably."),
    _seconds("score", "Advantages and weights."),
    _seconds("update", "Forward, backward and optimiser."),
    _seconds("record", "Storing what the step used and decided."),
    _seconds("step", "The whole step, evaluation and checkpoint not included."),
    _seconds("processor", "Processor time of the step, all threads of this process together."),
    Metric("perf/rows_per_s", "rows/s", "up", "Rollouts generated per second of step.", True),
    Metric("perf/tokens_per_s", "tokens/s", "up", "Sampled tokens per second of step.", True),
    Metric(
        "perf/peak_memory",
        "bytes",
        "down",
        "Most memory of the machine that the process has held since it began.",
        measured=True,
    ),
    Metric("health/failed_episodes", "rows", "down", "Failed episodes since the run began."),
    Metric("health/bad_steps", "updates", "down", "Skipped updates since the run began."),
    Metric("health/not_finite", "metrics", "down", "Metrics of the line that are NaN or infinite."),
    Metric(
        "health/sink_drops",
        "events",
        "down",
        "Events that trackers were too slow for, since this process began.",
        measured=True,
    ),
    Metric(
        "health/sink_failures",
        "sinks",
        "down",
        "Sinks switched off after a failure, since this process began.",
        measured=True,
    ),
)

_BY_NAME = {metric.name: metric for metric in METRICS}
_PLACE = re.compile(r"<\w+>")
_PATTERNS = tuple(
    (re.compile(_PLACE.sub(r"[A-Za-z0-9_.\-]+", metric.name)), metric)
    for metric in METRICS
    if "<" in metric.name
)
_FOREIGN = re.compile(r"[^A-Za-z0-9_.\-]+")


@lru_cache(maxsize=4096)
def find_metric(name: str) -> Metric | None:
    """Look a logged name up; None if nobody documented it."""
    if "<" in name:
        return None
    if name in _BY_NAME:
        return _BY_NAME[name]
    return next((metric for pattern, metric in _PATTERNS if pattern.fullmatch(name)), None)


def within(name: str, *places: str | int) -> str:
    """Name a metric of one domain (and level): `within("eval/success", "air line", 2)`.

    Characters that would break a name apart become underscores.
    """
    return "/".join([name, *(_FOREIGN.sub("_", str(place)) or "_" for place in places)])


def is_reproducible(name: str) -> bool:
    """Tell whether an exact repetition of a run gives this metric bit for bit."""
    metric = find_metric(name)
    return metric is not None and not metric.measured
