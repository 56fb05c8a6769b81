"""Conversations that agents lead elsewhere, found again by what was said in them.

An agent sends the whole conversation with every request, as text. Its earlier turns were sampled
here, so their tokens are known and are never made from the text again.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from recollect.canonical import digest
from recollect.envs.base import Opening, Score, ToolSpec, Turn
from recollect.errors import BadRequest, EpisodeOver, InvalidRecord
from recollect.models.chat import Chat
from recollect.randomness import stream
from recollect.rollout.episode import Attempt, Limits, Request
from recollect.rollout.sampler import Row
from recollect.serving.asking import Asked, Said, talk_key
from recollect.types import (
    GroupId,
    RunId,
    Sampling,
    Task,
    TaskKey,
    TrajectoryId,
    group_id,
    trajectory_id,
)


class Elsewhere:
    """An episode that somebody else plays and judges: we only keep what the agent read first."""

    def __init__(self, task: Task, opening: Opening) -> None:
        self.opening = opening
        self._task = task

    def respond(self, text: str) -> Turn:
        """Refuse: answers come from elsewhere."""
        raise EpisodeOver(self._task.id)

    def score(self) -> Score:
        """Refuse: scores come from elsewhere."""
        raise EpisodeOver(self._task.id)

    def close(self) -> None:
        """There is nothing to let go of."""


@dataclass(slots=True, eq=False)
class Talk:
    """A conversation at the moment of an answer; `fed` is what the model has read of it."""

    attempt: Attempt
    chat: Chat
    sampling: Sampling
    tools: tuple[ToolSpec, ...]
    fed: list[int]
    started: float
    finished: float = 0.0
    branches: int = 0
    key: str = ""

    @property
    def id(self) -> TrajectoryId:
        """The id of the trajectory that it becomes when it is scored."""
        return self.attempt.request.id

    def is_sampled_by(self, sampling: Sampling) -> bool:
        """Tell whether turns are drawn like this; how long one may get is its own business."""
        return replace(sampling, max_tokens=0) == replace(self.sampling, max_tokens=0)

    def row(self) -> Row:
        """Prepare the next turn: everything is read again, because nothing is kept between turns.

        What was sampled so far stays with the row: its numbers go on with those.
        """
        row = self.attempt.row
        new = list(row.pending)
        row.pending = [*self.fed, *new]
        self.fed = [*self.fed, *new]
        return row

    def end_turn(self) -> tuple[str, bool]:
        """Take over what was sampled: the text, and whether the turn was ended by itself."""
        sampled = list(self.attempt.row.turn)
        self.fed = [*self.fed, *sampled[:-1]]
        text = self.attempt.end_turn()
        return (text, True) if text is not None else (self.chat.decode(sampled), False)


class Conversations:
    """The newest conversations, by what was said and by the id of their last answer."""

    def __init__(self, chat: Chat, limits: Limits, most: int = 10_000) -> None:
        self._chat = chat
        self._limits = limits
        self._most = most
        self._by_id: OrderedDict[TrajectoryId, Talk] = OrderedDict()
        self._by_key: dict[str, list[Talk]] = {}

    def begin(self, request: Request, opening: Opening, sampling: Sampling, now: float) -> Talk:
        """Begin a conversation. BadRequest where it leaves no room for an answer."""
        episode = Elsewhere(request.task, opening)
        try:
            attempt = Attempt(request, episode, self._chat, self._limits, opening)
        except InvalidRecord as error:
            raise BadRequest("messages", error.problem) from error
        attempt.row.turn_limit = min(attempt.row.turn_limit, sampling.max_tokens)
        return Talk(attempt, self._chat, sampling, opening.tools, [], now)

    def go_on(self, asked: Asked, number: int, task: str | None = None) -> Talk:
        """Go on with a conversation whose last turn was sampled here.

        A copy goes on, so that the answer it continues can be continued again, or scored; `number`
        tells it from all others. Of several conversations in which the same was said, one that can
        go on so is taken, and of those the one least gone on with. All of them are attempts at one
        task, in one group: `task` is the id of the one that the request names, None where it names
        none.
        """
        parent = min(self._fitting(asked, task), key=lambda talk: talk.branches)
        parent.branches += 1
        memo = {id(self._chat): self._chat, id(parent.attempt.episode): parent.attempt.episode}
        attempt = copy.deepcopy(parent.attempt, memo)
        old = attempt.request
        name = trajectory_id(old.run, old.step, old.task.key, number)
        attempt.request = replace(old, id=name, row=number)
        chance = stream(old.seed, "tokens", old.step, old.task.key, number)
        attempt.row.uniforms = chance.random(self._limits.tokens)
        try:
            attempt.go_on(asked.news())
        except InvalidRecord as error:
            raise BadRequest("messages", error.problem) from error
        if attempt.stop is not None:
            raise BadRequest("messages", f"leave no room within {self._limits.tokens:,} tokens")
        attempt.row.turn_limit = min(attempt.row.turn_limit, asked.sampling.max_tokens)
        fed = list(parent.fed)
        return Talk(attempt, self._chat, parent.sampling, parent.tools, fed, parent.started)

    def _fitting(self, asked: Asked, task: str | None) -> list[Talk]:
        """Find the conversations that a request can go on with; BadRequest where there is none."""
        found = self._by_key.get(talk_key(asked.past))
        if not found:
            why = "hold a turn of the assistant that was not sampled here, or long ago"
            raise BadRequest("messages", why)
        found = _filed_so(found, asked.labels.get("group"), task)
        # Without any tools asked for, answers are no calls, but the model has read of its tools.
        found = [talk for talk in found if asked.tools in ((), talk.tools)]
        if not found:
            why = "may not change within a conversation: the model read of them where it began"
            raise BadRequest("tools", why)
        whole = [talk for talk in found if talk.attempt.stop is None]
        if not whole:
            raise BadRequest("messages", "go on after a turn that a limit cut short")
        alike = [talk for talk in whole if talk.is_sampled_by(asked.sampling)]
        if not alike:
            why = "may not change within a conversation: its log-probs are recorded as of one"
            raise BadRequest("temperature, top_p and top_k", why)
        _refuse_ambiguous(alike)
        return alike

    def keep(self, talk: Talk, messages: Sequence[Said]) -> None:
        """Remember a conversation after an answer, `messages` being all of it."""
        # It goes on with chances of its own, if at all; these are one for each token there may be.
        talk.attempt.row.uniforms = np.zeros(0)
        talk.key = talk_key(messages)
        self._by_id[talk.id] = talk
        self._by_key.setdefault(talk.key, []).append(talk)
        while len(self._by_id) > self._most:
            _, old = self._by_id.popitem(last=False)
            self._by_key[old.key].remove(old)
            if not self._by_key[old.key]:
                del self._by_key[old.key]

    def get(self, id_: str) -> Talk | None:
        """Find a conversation by the id of its last answer."""
        return self._by_id.get(TrajectoryId(id_))


def served_group(run: RunId, step: int, task: TaskKey, label: str | None) -> GroupId:
    """Name the group of an attempt at a task: the task's own, unless the agent names another."""
    return GroupId(digest("served", run, label, task)) if label else group_id(run, step, task)


def _filed_so(talks: Sequence[Talk], group: str | None, task: str | None) -> list[Talk]:
    """Keep the conversations whose task and group are those that a request names.

    The text alone cannot tell two attempts apart that began alike, and a trajectory under the
    wrong task teaches the wrong thing without anybody noticing.
    """
    found = [talk for talk in talks if task in (None, talk.attempt.request.task.id)]
    if not found:
        why = "is not the task of this conversation; it stays the one of the first request"
        raise BadRequest("metadata.task", why)
    if group:
        found = [talk for talk in found if _is_in(talk.attempt.request, group)]
    if not found:
        why = "is not the group of this conversation; it stays the one of the first request"
        raise BadRequest("metadata.group", why)
    return found


def _is_in(request: Request, group: str) -> bool:
    named = served_group(request.run, request.step, request.task.key, group)
    return request.group == named


def _refuse_ambiguous(talks: Sequence[Talk]) -> None:
    """Refuse to choose between conversations whose trajectories would be filed differently."""
    requests = [talk.attempt.request for talk in talks]
    if len({request.task.key for request in requests}) > 1:
        why = "is needed: the same was said in attempts at several tasks; name it in every request"
        raise BadRequest("metadata.task", why)
    if len({request.group for request in requests}) > 1:
        why = "is needed: the same was said in several groups; name it in every request"
        raise BadRequest("metadata.group", why)
