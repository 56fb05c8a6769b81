"""Requests on their way to the players, and what comes back, as plain data."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, get_args

from recollect.canonical import canonical_json
from recollect.errors import InvalidRecord
from recollect.notes.inject import Guidance, PromptNote
from recollect.rollout.episode import Request
from recollect.rollout.round import Failure, Where
from recollect.store import codec
from recollect.trajectory import Trajectory
from recollect.types import NoteId, RunId, Sampling, Task


@dataclass(frozen=True, slots=True)
class Order:
    """An attempt to make, how to sample it, and the version of the weights to sample from."""

    request: Request
    sampling: Sampling
    weights: int

    def text(self) -> str:
        """Write the order as one line."""
        request = self.request
        task = {k: v for k, v in asdict(request.task).items() if k != "key"}
        return canonical_json(
            {
                "task": task,
                "run": request.run,
                "step": request.step,
                "row": request.row,
                "policy_version": request.policy_version,
                "seed": request.seed,
                "notes": [[note.id, note.text] for note in request.guidance.notes],
                "place": request.guidance.place,
                "sampling": asdict(self.sampling),
                "weights": self.weights,
            }
        )

    @classmethod
    def read(cls, text: str) -> Order:
        """Read an order back; its ids are computed anew and are the same."""
        given: dict[str, Any] = json.loads(text)
        notes = tuple(PromptNote(NoteId(id_), words) for id_, words in given["notes"])
        request = Request.of(
            Task(**given["task"]),
            RunId(given["run"]),
            given["step"],
            given["row"],
            policy_version=given["policy_version"],
            seed=given["seed"],
            guidance=Guidance(notes, given["place"]),
        )
        return cls(request, Sampling(**given["sampling"]), given["weights"])


@dataclass(frozen=True, slots=True)
class Played:
    """What became of an order: a trajectory's frame, or where it broke and why."""

    frame: bytes = b""
    turns: int = 0
    where: str = ""
    reason: str = ""

    @classmethod
    def of(cls, result: Trajectory | Failure, turns: int) -> Played:
        """Pack a result."""
        if isinstance(result, Failure):
            return cls(where=result.where, reason=result.reason)
        return cls(codec.encode(result), turns)

    def result(self, request: Request) -> Trajectory | Failure:
        """Unpack it; InvalidRecord where it is another attempt's."""
        if self.frame:
            trajectory = codec.decode(self.frame)
            if trajectory.id != request.id:
                raise InvalidRecord("id", f"{trajectory.id} came back for {request.id}")
            return trajectory
        where: Where = self.where if self.where in get_args(Where) else "record"  # type: ignore[assignment]
        return Failure(request, where, self.reason or "the player gave no reason")
