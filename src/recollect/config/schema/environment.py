"""Section `environment`: which tasks the agent practises."""

from __future__ import annotations

from pydantic import Field, JsonValue, field_validator, model_validator
from pydantic_core import PydanticCustomError

from recollect.canonical import canonical_json, is_plain_json
from recollect.config.schema.section import MOST, Levels, Section, Words, conflict

MAX_OPTION_DEPTH = 20
MAX_OPTION_CHARS = 50_000
MAX_OPTION_KEY = 200


class EnvironmentSettings(Section):
    """Which tasks the agent practises."""

    name: str = Field(
        default="desk",
        min_length=1,
        description="The environment: built in (desk, desk:airline, single_turn:prompts.jsonl, "
        "tau2:telecom), a plug-in, or path/to/file.py:ClassName. See: recollect env ls",
    )
    levels: Levels | None = Field(
        default=None,
        description="Levels of difficulty to take tasks from, as numbers. none = all of them.",
    )
    domains: Words | None = Field(
        default=None,
        description="Domains to take tasks from, training and evaluation alike. none = all that "
        "the environment has.",
    )
    split: str = Field(
        default="train",
        min_length=1,
        description="Split that training tasks come from.",
    )
    tasks: int | None = Field(
        default=None,
        ge=1,
        le=MOST,
        description="How many of the split's tasks to train on, its first ones. none = all, of "
        "more than 20,000 the first 20,000; give their number to have more.",
    )
    options: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="Options of the environment itself, by name; it refuses those it does not "
        "know. A file's options replace a preset's as a whole.",
    )

    @field_validator("options")
    @classmethod
    def _options_are_small_json(cls, options: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if not is_plain_json(options, MAX_OPTION_DEPTH):
            raise PydanticCustomError("options", "must be plain JSON, at most 20 levels deep")
        if (
            len(canonical_json(options)) > MAX_OPTION_CHARS
            or _longest_key(options) > MAX_OPTION_KEY
        ):
            raise PydanticCustomError(
                "options", "are too long: put data in a file and give its path as an option"
            )
        return options

    @model_validator(mode="after")
    def _levels_are_given_once(self) -> EnvironmentSettings:
        if "levels" in self.options:
            raise conflict(
                "environment.options.levels",
                what="levels of difficulty are a setting of their own, not an option",
                change="Use environment.levels instead of environment.options.levels.",
            )
        return self


def _longest_key(value: JsonValue) -> int:
    if isinstance(value, dict):
        return max((max(len(key), _longest_key(item)) for key, item in value.items()), default=0)
    if isinstance(value, list):
        return max((_longest_key(item) for item in value), default=0)
    return 0
