"""A policy as a service: answers with their tokens, and trajectories once somebody scores them."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from recollect.canonical import Json, canonical_json, digest
from recollect.envs.base import Opening, Score
from recollect.envs.tools import Call, parse_call
from recollect.errors import BadRequest, InvalidRecord, StoreConflict
from recollect.ledger import Group, Run
from recollect.models.chat import Chat
from recollect.rollout.episode import Limits, Request
from recollect.rollout.sampler import Sampler
from recollect.serving.asking import Asked, Said
from recollect.serving.conversations import Conversations, Talk, served_group
from recollect.serving.generation import Generation
from recollect.store.base import Store
from recollect.store.records import Batch
from recollect.trajectory import Trajectory
from recollect.types import RunId, Task, trajectory_id
from recollect.validation import check_finite

_GREEDY = (
    "an answer at temperature 0 (or top_k 1) was chosen, not sampled: its log-probs are not those "
    "of whoever chose it, so it cannot be trained on; ask at a temperature above 0"
)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a served policy comes from, and what its rows are filed under."""

    name: str
    run: RunId
    seed: int
    step: int
    policy_version: int
    environment: str
    environment_version: str


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: its id, text, tokens with log-probs, and how it ended."""

    id: str
    text: str
    call: Call | None
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    prompt: tuple[int, ...]
    is_whole: bool

    def said(self) -> Said:
        """The answer as the client will send it back."""
        if self.call is None:
            return Said("assistant", self.text)
        return Said("assistant", "", (self.call.record(),))


class PolicyService:
    """Answers agents, and keeps what they did.

    Promises: the tokens of a conversation are those that were sampled, however often its text
    goes back and forth; a scored conversation is in the store, durably, before `score` returns.
    May be used by several threads.
    """

    def __init__(
        self,
        chat: Chat,
        sampler: Sampler,
        limits: Limits,
        origin: Origin,
        store: Store | None,
        find_task: Callable[[str], Task | None] = lambda id_: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.chat = chat
        self.origin = origin
        self.limits = limits
        self._store: Store | None = None
        self._find_task = find_task
        self._clock = clock
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        tokens = min(limits.tokens, sampler.max_positions or limits.tokens)
        self._talks = Conversations(chat, Limits(tokens, tokens, limits.turns))
        self._generation = Generation(sampler)
        if store is not None:
            self.record_in(store)

    def record_in(self, store: Store) -> None:
        """Keep what is scored in a store from now on."""
        origin = self.origin
        store.commit(Batch(runs=[Run(origin.run, origin.seed, {"served": origin.name})]))
        self._store = store

    def close(self) -> None:
        """Stop sampling. The store is its owner's."""
        self._generation.close()

    def answer(self, asked: Asked) -> list[Answer]:
        """Sample the next turn of a conversation, `asked.rows` times."""
        with self._lock:
            talks = [self._open(asked) for _ in range(asked.rows)]
        prompts = [tuple(talk.row().pending) for talk in talks]
        before = [talk.attempt.row.sampled for talk in talks]
        self._generation.sample([talk.attempt.row for talk in talks], asked.sampling)
        answers = []
        with self._lock:
            for talk, prompt, start in zip(talks, prompts, before, strict=True):
                answers.append(self._take(talk, prompt, start, asked))
        return answers

    def score(self, id_: str, score: Score) -> Trajectory:
        """Keep a conversation as a trajectory, with what it was worth."""
        if self._store is None:
            raise BadRequest("reward", "nothing is recorded by this server", status=409)
        with self._lock:
            talk = self._talks.get(id_)
            if talk is None:
                raise BadRequest("id", f"there is no answer {id_[:60]!r}, or not any more", 404)
            if talk.sampling.temperature == 0 or talk.sampling.top_k == 1:
                raise BadRequest("reward", _GREEDY, status=409)
            origin = self.origin
            versions = (self.chat.fingerprint, origin.environment_version)
            trajectory = talk.attempt.trajectory(
                score,
                talk.sampling,
                (*versions, origin.environment_version),
                (talk.started, talk.finished),
            )
            request = talk.attempt.request
            group = Group(
                request.group, origin.run, origin.step, request.task.key, origin.policy_version
            )
            batch = Batch(tasks=[request.task], groups=[group], trajectories=[trajectory])
            try:
                self._store.commit(batch)
            except StoreConflict as error:
                why = "this answer is kept already, with another score, and scores do not change"
                raise BadRequest("reward", why, status=409) from error
        return trajectory

    def _open(self, asked: Asked) -> Talk:
        number = next(self._numbers)
        if asked.past:
            named = self._task(asked).id if asked.labels.get("task") else None
            return self._talks.go_on(asked, number, named)
        opening = Opening(asked.news(), asked.tools)
        task = self._task(asked)
        o = self.origin
        request = Request(
            id=trajectory_id(o.run, o.step, task.key, number),
            task=task,
            run=o.run,
            step=o.step,
            group=served_group(o.run, o.step, task.key, asked.labels.get("group")),
            policy_version=o.policy_version,
            seed=o.seed,
            row=number,
        )
        return self._talks.begin(request, opening, asked.sampling, self._clock())

    def _task(self, asked: Asked) -> Task:
        """Name the task: as the request's metadata do, or by what was asked."""
        o = self.origin
        id_ = asked.labels.get("task", "")
        known = self._find_task(id_) if id_ else None
        if known is not None:
            return known
        said = [[m.role, m.text] for m in asked.messages]
        query = next((m.text for m in asked.messages if m.role == "user"), "")
        try:
            return Task(
                o.environment, id_ or digest(canonical_json(said)), o.environment_version, query
            )
        except InvalidRecord as error:
            raise BadRequest("metadata.task", error.problem) from error

    def _take(self, talk: Talk, prompt: Sequence[int], start: int, asked: Asked) -> Answer:
        row = talk.attempt.row
        tokens = tuple(row.turn)
        text, is_whole = talk.end_turn()
        talk.finished = self._clock()
        call = parse_call(text) if asked.tools else None
        answer = Answer(
            id=talk.id,
            text=text,
            call=call if isinstance(call, Call) else None,
            tokens=tokens,
            logprobs=tuple(row.logprobs[start:]),
            prompt=tuple(prompt),
            is_whole=is_whole,
        )
        self._talks.keep(talk, (*asked.messages, answer.said()))
        return answer


def read_score(body: Mapping[str, Json], threshold: float) -> Score:
    """Read what somebody says a conversation was worth."""
    rest = dict(body)
    reward, success = rest.pop("reward", None), rest.pop("success", None)
    parts = rest.pop("parts", {})
    if isinstance(reward, bool) or not isinstance(reward, int | float):
        raise BadRequest("reward", "must be a number")
    if success is not None and not isinstance(success, bool):
        raise BadRequest("success", "must be true or false")
    if not isinstance(parts, dict) or rest:
        raise BadRequest(next(iter(rest), "parts"), "is not known; reward, success and parts are")
    try:
        check_finite("reward", reward)  # JSON's whole numbers may be larger than any float
        return Score(
            float(reward),
            reward >= threshold if success is None else success,
            parts,  # type: ignore[arg-type]  # checked where it is made
        )
    except InvalidRecord as error:
        raise BadRequest(error.field, error.problem) from error
