"""Gold attempts as rows: what an ideal agent would have said, in the tokens of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

import numpy as np

from recollect.envs.base import Environment, OffersGold
from recollect.errors import BadContinual
from recollect.models.chat import Chat
from recollect.rollout.collector import Collected, Generator
from recollect.rollout.episode import Request
from recollect.store.records import Provenance
from recollect.trajectory import Trajectory
from recollect.types import Origin, Reward, Sampling, Segment, SegmentKind


class Teacher:
    """Stands in for a collector: instead of sampling, it plays each task's gold texts.

    Rows are demos: no policy sampled them, so they have no log-probs. Promise: their tokens are
    those that the sampler would have met, piece by piece, from the same chat.
    """

    def __init__(self, environment: Environment, chat: Chat, collector: Generator) -> None:
        if not isinstance(environment, OffersGold):
            raise BadContinual(
                f"{environment.name} knows no gold attempts to imitate",
                "Choose another continual.method, or give the environment a method gold(task).",
            )
        self._gold: OffersGold = environment
        self._environment: Environment = environment
        self._chat = chat
        self._collector = collector

    @property
    def fingerprints(self) -> Provenance:
        """What its rows carry: what sampled rows would carry here."""
        return self._collector.fingerprints

    def close(self) -> None:
        """Let go of the collector that it stands in for."""
        self._collector.close()

    def collect(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        progress: Callable[[int, int], None] = lambda done, failed: None,
    ) -> Collected:
        """Play the gold texts of each request's task."""
        rows, turns = [], 0
        for request in requests:
            row, said = self._demo(request)
            rows.append(row)
            turns += said
            progress(len(rows), 0)
        return Collected(tuple(rows), (), turns)

    def _demo(self, request: Request) -> tuple[Trajectory, int]:
        ids: list[int] = []
        sampled: list[bool] = []
        segments: list[Segment] = []

        def read(kind: SegmentKind, tokens: Sequence[int], text: str, said: bool) -> None:
            start = len(ids)
            ids.extend(tokens)
            sampled.extend([said] * len(tokens))
            if said and segments and segments[-1].kind is SegmentKind.ASSISTANT:
                start = segments.pop().start  # the header of the turn is part of it
            segments.append(Segment(kind, start, len(ids), text))

        texts = self._gold.gold(request.task)
        start = self._environment.start(request.task, request.environment_seed())
        with closing(start) as episode:
            for piece in self._chat.opening(episode.opening):
                read(piece.kind, piece.ids, piece.text, False)
            for text in texts:
                spoken = self._chat.spoken(text)
                read(SegmentKind.ASSISTANT, [*spoken, self._chat.stop_id], text, True)
                turn = episode.respond(text)
                if turn.done or not turn.messages:
                    break
                for piece in self._chat.reply(turn.messages):
                    read(piece.kind, piece.ids, piece.text, False)
            score = episode.score()
        return self._record(request, ids, sampled, segments, Reward(score.reward, score.parts),
                            score.success), len(texts)  # fmt: skip

    def _record(
        self,
        request: Request,
        ids: list[int],
        sampled: list[bool],
        segments: list[Segment],
        reward: Reward,
        success: bool,
    ) -> Trajectory:
        made_by = self.fingerprints
        return Trajectory(
            id=request.id,
            task=request.task.key,
            run=request.run,
            step=request.step,
            group=request.group,
            origin=Origin.DEMO,
            policy_version=None,
            tokens=np.array(ids, dtype=np.int32),
            sampled=np.array(sampled, dtype=np.bool_),
            logprobs=None,
            entropies=None,
            segments=tuple(segments),
            reward=reward,
            success=success,
            tokenizer=made_by.tokenizer,
            environment_version=made_by.environment_version,
            reward_version=made_by.reward_version,
        )
