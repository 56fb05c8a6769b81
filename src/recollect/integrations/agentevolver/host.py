"""What the host gives: its tasks, and its trajectories in one small form.

A host whose trajectories have other names gives the manager an adapter, any function from its
object to a `HostRow`.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Protocol, TypeAlias

from recollect.errors import InvalidRecord


class HostTask(Protocol):
    """A task of the host. `query` is its *own* query, None where the environment's is used.

    `copy.copy` must copy it, and its `metadata` must be replaceable.
    """

    @property
    def task_id(self) -> str:
        """The host's id of the task."""

    @property
    def query(self) -> str | None:
        """The query of its own, if it has one."""

    @property
    def metadata(self) -> MutableMapping[str, Any]:
        """Where the number of replayed rows is written."""


@dataclass(frozen=True, slots=True)
class HostRow:
    """One fresh attempt as the host knows it.

    - `task_id` and `query` name the task: `query` is that of the host's *task* (None or "" where
      the task has none of its own), so that synthetic tasks that share an id stay apart.
    - `data_id` and `rollout_id` name the attempt among all attempts at the task in this step.
    - `prompt_ids`, `response_ids`: the ids the model saw and sampled, never re-tokenised text.
    - `loss_mask`, one entry per response token: 1 = sampled by the policy, and may train.
    - `log_probs`, `entropies`, one entry per response token (not looked at where `loss_mask` is
      0), as recorded while sampling; None = not recorded.
    - `success`: None = by the reward and `success_threshold`.
    - `segments`: who wrote what, as (kind, tokens) over prompt and response together, kinds as
      in `SegmentKind`. None = prompt by the user, loss_mask 1 by the assistant, the rest by tools.
    - `policy_version`: None = that of the step.
    """

    task_id: str
    prompt_ids: Sequence[int]
    response_ids: Sequence[int]
    loss_mask: Sequence[int]
    reward: float
    query: str | None = None
    data_id: str | int = ""
    rollout_id: str | int = 0
    log_probs: Sequence[float] | None = None
    entropies: Sequence[float] | None = None
    success: bool | None = None
    segments: Sequence[tuple[str, int]] | None = None
    policy_version: int | None = None


Adapter: TypeAlias = Callable[[Any], HostRow]

_OPTIONAL = {field.name for field in fields(HostRow) if field.default is not MISSING}


def read_row(given: Any) -> HostRow:
    """Take a `HostRow` as it is, and any other object by attributes of the same names.

    A reward that has an `outcome` (the host's `Reward`) counts as that number. An attribute
    that is missing and has no default is refused by name.
    """
    if isinstance(given, HostRow):
        return given
    found: dict[str, Any] = {}
    for name in (field.name for field in fields(HostRow)):
        if hasattr(given, name):
            found[name] = getattr(given, name)
        elif name not in _OPTIONAL:
            problem = f"{type(given).__name__} has no such attribute; give the manager an adapter"
            raise InvalidRecord(name, problem)
    found["reward"] = getattr(found["reward"], "outcome", found["reward"])
    return HostRow(**found)
