"""Who sampled the tokens of a foreign file: what such files leave out and log-probs need."""

from __future__ import annotations

from dataclasses import dataclass

from recollect.canonical import Json
from recollect.validation import check_count, check_finite, check_text


@dataclass(frozen=True, slots=True)
class SampledBy:
    """The fingerprint of tokenizer and chat template, the policy's version, its temperature."""

    tokenizer: str
    policy_version: int = 0
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_text("tokenizer", self.tokenizer)
        check_count("policy_version", self.policy_version)
        check_finite("temperature", self.temperature)

    def members(self) -> dict[str, Json]:
        """The members of a row that say so."""
        return {
            "tokenizer": self.tokenizer,
            "policy_version": self.policy_version,
            "sampling": {"temperature": self.temperature},
        }
