"""Playing one attempt where somebody else's server samples: our environments as an agent loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from recollect.config.schema.config import Config
from recollect.envs.registry import load_environment
from recollect.integrations.verl.asking import Order, Played
from recollect.models.catalog import folder_of
from recollect.models.chat import Chat
from recollect.randomness import stream_seed
from recollect.rollout.calls import CallFailed, GuardedCalls, describe
from recollect.rollout.collector import make_rules
from recollect.rollout.episode import Limits
from recollect.rollout.round import Failure, Round, Rules
from recollect.rollout.sampler import Row
from recollect.store.records import Provenance

T = TypeVar("T")
_ROUNDING = 1e-5  # of a log-prob, above 0


@dataclass(frozen=True, slots=True)
class Said:
    """What a server sampled: tokens, their log-probs, and the version of its weights if told."""

    tokens: Sequence[int]
    logprobs: Sequence[float]
    version: int | None = None


class Speaker(Protocol):
    """Samples a turn; `settings` are those of vLLM's sampling."""

    async def __call__(self, prompt: list[int], settings: dict[str, Any]) -> Said:
        """Give tokens up to a stop token, which is part of them, or to the limit."""


class Table:
    """Environment, chat and rules of a run in one process of players.

    Environments and tokenizers are used by one thread: attempts wait for each other where those
    work, and go on together where the server samples.
    """

    def __init__(self, rules: Rules, call_seconds: float) -> None:
        self.rules = rules
        self._calls = GuardedCalls(call_seconds)
        self._thread = ThreadPoolExecutor(1, "recollect-table")

    @property
    def fingerprints(self) -> Provenance:
        """What every trajectory played here carries."""
        return Provenance(*self.rules.versions)

    async def play(self, order: Order, speak: Speaker) -> Played:
        """Play an order to its end; whatever goes wrong concerns this attempt only."""
        work = Round(self.rules, self._calls, order.sampling, lambda done, failed: None)
        request = order.request
        try:
            rows = await self._do(partial(_begin, work, order))
            for row in rows:
                while not row.done:
                    await self._speak(row, order, speak)
                    await self._do(partial(work.end_turns, [row]))
        except CallFailed as failure:
            return Played.of(Failure(request, "respond", failure.reason), 0)
        finally:
            await self._do(work.close)
        if request.id in work.failed:
            return Played.of(work.failed[request.id], 0)
        return Played.of(work.done[request.id], work.turns)

    def close(self) -> None:
        """Let go of the threads."""
        self._thread.shutdown(wait=False)
        self._calls.close()

    async def _speak(self, row: Row, order: Order, speak: Speaker) -> None:
        settings = _sampling(row, order, self.rules.chat)
        try:
            said = await speak(list(row.pending), settings)
        except Exception as error:  # the server is a fault boundary, as the environment is
            raise CallFailed(f"the rollout server failed: {describe(error)}") from error
        if not said.tokens:
            raise CallFailed("the rollout server gave no token")
        if len(said.tokens) != len(said.logprobs):
            raise CallFailed(f"{len(said.logprobs)} log-probs for {len(said.tokens)} tokens")
        if said.version is not None and said.version != order.weights:
            raise CallFailed(f"sampled by weights {said.version}, asked for {order.weights}")
        for token, logprob in zip(said.tokens, said.logprobs, strict=True):
            row.take(int(token), min(float(logprob), _ROUNDING))

    async def _do(self, action: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, action)


def lay_table(config: Config) -> Table:
    """Make the table of a run: the same rules as those of the collector in one process."""
    environment = load_environment(config.environment.name, **config.environment.options)
    chat, positions = _chat(config.model.name)
    r = config.rollout
    limits = Limits(r.max_tokens, r.max_turn_tokens, r.max_turns)
    return Table(
        make_rules(environment, chat, limits, positions, r.episode_seconds), r.call_seconds
    )


def _begin(work: Round, order: Order) -> list[Row]:
    return list(work.rows([order.request]))


def _sampling(row: Row, order: Order, chat: Chat) -> dict[str, Any]:
    """Settings of one turn. Its seed names it: the same turn again gets the same chance."""
    request = order.request
    seed = stream_seed(
        request.seed, "turn", request.step, request.task.key, request.row, row.sampled
    )
    return {
        "temperature": order.sampling.temperature,
        "top_p": 1.0,
        "top_k": -1,
        "logprobs": True,
        "max_tokens": row.turn_limit,
        "stop_token_ids": list(chat.stop_ids),
        "seed": seed % 2**31,
    }


def _chat(name: str) -> tuple[Chat, int | None]:
    """Load a model's chat, its declared stop tokens included, and how many positions it has."""
    from transformers import AutoConfig, AutoTokenizer, GenerationConfig

    source = str(folder_of(name) or name)
    tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    config = AutoConfig.from_pretrained(source, trust_remote_code=False)
    try:
        stops = GenerationConfig.from_pretrained(source).eos_token_id
    except OSError:  # a model need not have such a file
        stops = config.eos_token_id
    found = stops if isinstance(stops, list) else [] if stops is None else [stops]
    positions = getattr(config, "max_position_embeddings", None)
    return Chat(tokenizer, [int(token) for token in found]), int(positions) if positions else None
