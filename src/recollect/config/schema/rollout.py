"""Section `rollout`: how the agent's attempts are sampled, and their limits."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from recollect.config.schema.section import MOST, Section, conflict


class RolloutSettings(Section):
    """How the agent's attempts are sampled, and their limits."""

    tasks_per_step: int = Field(
        default=8,
        ge=1,
        le=MOST,
        description="Tasks attempted in a step; each makes one group.",
    )
    rows_per_task: int = Field(
        default=8,
        ge=1,
        le=MOST,
        description="Attempts at each task in a step: the size of a group.",
    )
    temperature: float = Field(
        default=1.0,
        gt=0,
        le=100,
        description="Sampling temperature. Log-probs are recorded at it, so 1 leaves the policy "
        "as it is.",
    )
    top_p: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="Sample from the likeliest tokens that hold this share of the probability. "
        "1 = from all.",
    )
    top_k: int = Field(
        default=0,
        ge=0,
        le=MOST,
        description="Sample from this many of the likeliest tokens. 0 = from all.",
    )
    max_tokens: int = Field(
        default=640,
        ge=1,
        le=MOST,
        description="Longest trajectory, in tokens, with everything in it: prompt, answers and "
        "tool results. Only notes come on top, as far as the model has positions.",
    )
    max_turn_tokens: int = Field(
        default=96,
        ge=1,
        le=MOST,
        description="Longest single answer of the agent, in tokens.",
    )
    max_turns: int = Field(
        default=12,
        ge=1,
        le=MOST,
        description="Most answers of the agent in an episode. The environment may stop earlier.",
    )
    batch_rows: int = Field(
        default=64,
        ge=1,
        le=MOST,
        description="Rows that are generated at the same time. More is faster and takes more "
        "memory; results do not depend on it but for rounding.",
    )
    engine: Literal["hf", "vllm", "vllm-server"] = Field(
        default="hf",
        description="What samples. hf = the model that trains, in this process; vllm = vLLM beside "
        "it in this process (extra vllm); vllm-server = a vLLM server at rollout.url. Both get "
        "the weights before every round of sampling.",
    )
    url: str | None = Field(
        default=None,
        description="Address of the vLLM server, such as http://127.0.0.1:8000. The weights go "
        "through the run's folder, which the server must see under the same path.",
    )
    vllm_memory: float = Field(
        default=0.3,
        gt=0,
        lt=1,
        description="Share of the device's memory that vLLM in this process takes for weights and "
        "cache (vllm); the rest is left to training.",
    )
    mismatch_cap: float | None = Field(
        default=2.0,
        ge=1,
        description="Log-probs of vLLM differ from the trainer's by rounding and more. A fresh "
        "token's loss is weighted by the ratio of trainer to sampler, at most by this. none = the "
        "ratio is measured and nothing is corrected. Without effect with hf.",
    )
    call_seconds: float = Field(
        default=10.0,
        gt=0,
        description="Longest time for one call of the environment, in seconds; then the episode "
        "counts as failed.",
    )
    episode_seconds: float = Field(
        default=120.0,
        gt=0,
        description="Longest time for one episode, in seconds, the model's own included; then it "
        "is cut off. A large model on a CPU needs more.",
    )
    max_failed_share: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Share of a step's episodes that may fail for reasons of the environment "
        "before the run stops. Failed episodes never train.",
    )

    @model_validator(mode="after")
    def _a_turn_fits_the_trajectory(self) -> RolloutSettings:
        if self.max_turn_tokens > self.max_tokens:
            raise conflict(
                "rollout.max_turn_tokens",
                "rollout.max_tokens",
                what=f"one answer may take {self.max_turn_tokens} tokens (rollout.max_turn_tokens)"
                f", but a whole trajectory only {self.max_tokens} (rollout.max_tokens)",
                change="Lower rollout.max_turn_tokens or raise rollout.max_tokens.",
            )
        return self

    @model_validator(mode="after")
    def _a_group_is_generated_together(self) -> RolloutSettings:
        if self.batch_rows < self.rows_per_task:
            raise conflict(
                "rollout.batch_rows",
                "rollout.rows_per_task",
                what=f"rollout.batch_rows = {self.batch_rows} would cut every group of "
                f"{self.rows_per_task} rows (rollout.rows_per_task)",
                change=f"Set rollout.batch_rows to at least {self.rows_per_task}.",
            )
        return self

    @model_validator(mode="after")
    def _a_call_fits_the_episode(self) -> RolloutSettings:
        if self.call_seconds > self.episode_seconds:
            raise conflict(
                "rollout.call_seconds",
                "rollout.episode_seconds",
                what=f"one call may take {self.call_seconds:g} s (rollout.call_seconds), but a "
                f"whole episode only {self.episode_seconds:g} s (rollout.episode_seconds)",
                change="Lower rollout.call_seconds or raise rollout.episode_seconds.",
            )
        return self
