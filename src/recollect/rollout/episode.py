"""One attempt at a task while it is being sampled, and the trajectory it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from recollect.envs.base import Episode, Message, Opening, Score
from recollect.envs.tools import Call, parse_call
from recollect.errors import InvalidRecord
from recollect.models.chat import Chat, Piece
from recollect.notes.inject import NOTHING, Guidance
from recollect.randomness import stream, stream_seed
from recollect.rollout.sampler import Row
from recollect.trajectory import Trajectory
from recollect.types import (
    GroupId,
    NoteSpan,
    Origin,
    Reward,
    RunId,
    Sampling,
    Segment,
    SegmentKind,
    StopReason,
    Task,
    TrajectoryId,
    group_id,
    trajectory_id,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long an attempt may get: tokens in all but for notes, tokens and count of turns.

    Notes come on top of `tokens`, so that those who have some can say as much as those who have
    none; `positions` bounds everything together (0 = nothing does).
    """

    tokens: int
    turn_tokens: int
    turns: int
    positions: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """One attempt to make: everything that names it and decides its chance."""

    id: TrajectoryId
    task: Task
    run: RunId
    step: int
    group: GroupId
    policy_version: int
    seed: int  # of the run
    row: int  # tells the attempts at one task in one step apart
    guidance: Guidance = NOTHING  # the notes in its prompt

    @classmethod
    def of(
        cls,
        task: Task,
        run: RunId,
        step: int,
        row: int,
        *,
        policy_version: int,
        seed: int,
        guidance: Guidance = NOTHING,
    ) -> Request:
        """Ask for an attempt in the group of its task and step; its place in the run names it."""
        id_, group = trajectory_id(run, step, task.key, row), group_id(run, step, task.key)
        return cls(id_, task, run, step, group, policy_version, seed, row, guidance)

    def environment_seed(self) -> int:
        """Seed of the environment's chance in this attempt."""
        return stream_seed(self.seed, "environment", self.step, self.task.key, self.row)


class Attempt:
    """Tokens, segments and log-probs of one attempt, growing turn by turn.

    Promise: it never has more than `limits.tokens` tokens beside its notes. Raises InvalidRecord
    where the opening leaves no room for an answer; notes that leave none are left out, all of them.
    """

    def __init__(
        self, request: Request, episode: Episode, chat: Chat, limits: Limits, opening: Opening
    ) -> None:
        self.request = request
        self.episode = episode
        self._chat = chat
        self._ids: list[int] = []
        self._sampled: list[bool] = []
        self._segments: list[Segment] = []
        self.turns = 0
        self.stop: StopReason | None = None
        self._notes = request.guidance.notes
        pieces = chat.opening(opening, request.guidance.texts, request.guidance.place)
        prompt, most = _size(pieces), _most(pieces, limits)
        if self._notes and prompt >= most:
            self._notes, pieces = (), chat.opening(opening)
            prompt, most = _size(pieces), limits.tokens
        self._limits = limits = replace(limits, tokens=most)
        if not 0 < prompt < limits.tokens:
            raise InvalidRecord("opening", f"has {prompt} tokens, {limits.tokens} are the limit")
        chance = stream(request.seed, "tokens", request.step, request.task.key, request.row)
        self.row = Row([], chance.random(limits.tokens), limits.turn_tokens)
        self._read(pieces)

    def end_turn(self) -> str | None:
        """Take over what was sampled, and return it as text.

        None if the turn was cut: the attempt is over, and nobody gets half a sentence.
        """
        ids = self.row.turn
        is_closed = ids[-1] in self._chat.stop_ids
        text = self._chat.decode(ids[:-1] if is_closed else ids)
        self._write(text, ids)
        self.row.turn = []
        self.turns += 1
        if is_closed:
            return text
        self.finish(StopReason.TOKEN_LIMIT)
        return None

    def go_on(self, messages: Sequence[Message]) -> None:
        """Read the environment's answer and speak again, unless a limit is reached."""
        if self.turns >= self._limits.turns:
            self.finish(StopReason.TURN_LIMIT)
            return
        pieces = self._chat.reply(messages)
        if len(self._ids) + _size(pieces) >= self._limits.tokens:
            self.finish(StopReason.TOKEN_LIMIT)
        else:
            self._read(pieces)

    def finish(self, stop: StopReason) -> None:
        """End the attempt."""
        self.stop = stop
        self.row.done = True

    def trajectory(
        self,
        score: Score,
        sampling: Sampling,
        versions: tuple[str, str, str],
        times: tuple[float, float],
    ) -> Trajectory:
        """Seal the attempt as a record.

        `versions` are the fingerprints of tokenizer and template, environment, and reward.
        """
        request, (tokenizer, environment, reward) = self.request, versions
        entropies = self.row.entropies
        return Trajectory(
            id=request.id,
            task=request.task.key,
            run=request.run,
            step=request.step,
            group=request.group,
            origin=Origin.GUIDED if self._notes else Origin.FRESH,
            policy_version=request.policy_version,
            tokens=np.array(self._ids, dtype=np.int32),
            sampled=np.array(self._sampled, dtype=np.bool_),
            logprobs=np.array(self.row.logprobs, dtype=np.float32),
            # A rollout server may not tell them.
            entropies=np.array(entropies, dtype=np.float32) if entropies else None,
            segments=tuple(self._segments),
            reward=Reward(score.reward, score.parts),
            success=score.success,
            stop=self.stop or StopReason.DONE,
            sampling=sampling,
            notes=self._note_spans(),
            tokenizer=tokenizer,
            environment_version=environment,
            reward_version=reward,
            started=times[0],
            finished=times[1],
        )

    def _note_spans(self) -> tuple[NoteSpan, ...]:
        places = [segment for segment in self._segments if segment.kind is SegmentKind.NOTE]
        return tuple(
            NoteSpan(note.id, place.start, place.end)
            for note, place in zip(self._notes, places, strict=True)
        )

    def _read(self, pieces: list[Piece]) -> None:
        """Append text the agent did not write; the header of its turn becomes part of the turn."""
        for piece in pieces:
            start = len(self._ids)
            self._ids.extend(piece.ids)
            self._sampled.extend([False] * len(piece.ids))
            self._segments.append(
                Segment(piece.kind, start, len(self._ids), piece.text, name=piece.name)
            )
            self.row.pending.extend(piece.ids)
        room = self._limits.tokens - len(self._ids)
        self.row.turn_limit = min(self._limits.turn_tokens, room)

    def _write(self, text: str, ids: list[int]) -> None:
        """Append what the agent sampled to the segment that its header opened."""
        header = self._segments.pop()
        self._ids.extend(ids)
        self._sampled.extend([True] * len(ids))
        call = parse_call(text)
        calls = (call.record(),) if isinstance(call, Call) else ()
        self._segments.append(
            Segment(SegmentKind.ASSISTANT, header.start, len(self._ids), text, calls)
        )


def _most(pieces: Sequence[Piece], limits: Limits) -> int:
    """Tokens that an attempt may have, notes included."""
    notes = _size([piece for piece in pieces if piece.kind is SegmentKind.NOTE])
    most = limits.tokens + notes
    return min(most, limits.positions) if limits.positions and notes else most


def _size(pieces: Sequence[Piece]) -> int:
    return sum(len(piece.ids) for piece in pieces)
