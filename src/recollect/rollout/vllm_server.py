"""vLLM as a server: turns over HTTP, weights by way of a folder that both sides see."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from recollect.canonical import Json
from recollect.errors import GeneratorLost
from recollect.models.loading import Policy
from recollect.rollout.turns import Spoken, Turn
from recollect.rollout.vllm import LogprobsMode, sampling_fields
from recollect.rollout.vllm_worker import EXTENSION, REPACK
from recollect.wire.address import Address
from recollect.wire.client import RequestFailed, get_json, post_json

_TURN_SECONDS = 600.0  # for a turn, the time it waits in the server's queue included
_RENEW_SECONDS = 1800.0  # for the weights of a large model over a slow disk
_LOOK_SECONDS = 120.0  # a server gathers facts of its machine the first time
_TRIES = 3
_MOST_BYTES = 2**26


class VllmServer:
    """A server that somebody started with `vllm serve` (see `turns.Speaker`).

    Weights are saved to `folder` and reloaded by the server, which must see the same path. It
    must have been started in development mode, where its calls for training are, and with the
    log-probs that are ours (`mode`): both are looked at, and its absence is told.
    """

    def __init__(
        self,
        policy: Policy,
        url: str,
        folder: Path,
        *,
        positions: int,
        rows: int,
        mode: LogprobsMode,
        token: str = "",
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._policy = policy
        self._url = url
        self._address = Address.parse(url)
        self._folder = folder.resolve()
        self._token = token
        self._pause = pause
        self._mode = mode
        self._model, served = self._look()
        self._positions = min(positions, served or positions)
        self._pool = ThreadPoolExecutor(rows, "recollect-vllm")
        self._under_way: dict[Future[Spoken], int] = {}

    @property
    def max_positions(self) -> int | None:
        """How many tokens a row may have, here and there."""
        return self._positions

    def renew(self) -> None:
        """Save the policy's weights and have the server load them, with nothing under way."""
        draft = self._folder.with_name(f".{self._folder.name}.draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        self._policy.save(draft)
        # Into place by a rename: the server may still hold the old files in its memory.
        shutil.rmtree(self._folder, ignore_errors=True)
        draft.rename(self._folder)
        self._post("pause?mode=wait", {}, _RENEW_SECONDS)
        try:
            order: dict[str, Json] = {
                "method": "reload_weights",
                "kwargs": {"weights_path": str(self._folder)},
            }
            self._post("collective_rpc", order, _RENEW_SECONDS)
            if self._repacks:
                self._post("collective_rpc", {"method": REPACK}, _LOOK_SECONDS)
            emptied: Any = self._post("reset_prefix_cache", {}, _LOOK_SECONDS)
            if not isinstance(emptied, dict) or emptied.get("success") is not True:
                raise self._lost("its prefix cache, which is of older weights, cannot be emptied")
        finally:
            self._post("resume", {}, _LOOK_SECONDS)

    def ask(self, number: int, turn: Turn) -> None:
        """Begin a turn, in a thread that waits for it."""
        self._under_way[self._pool.submit(self._speak, turn)] = number

    def hear(self) -> Sequence[tuple[int, Spoken]]:
        """Wait until a turn is finished."""
        done, _ = wait(self._under_way, return_when=FIRST_COMPLETED)
        found = {self._under_way.pop(each): each.result() for each in done}
        return sorted(found.items())

    def drop(self) -> None:
        """Give up what was begun; what is on its way comes back to nobody."""
        for each in self._under_way:
            each.cancel()
        self._under_way.clear()

    def close(self) -> None:
        """Let go of the threads and of the saved weights; the server is not ours to stop."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    # -- the server's calls --------------------------------------------------------------------

    def _look(self) -> tuple[str, int | None]:
        """Find out what is served: its name and how many positions it has."""
        models = self._get("v1/models")
        try:
            first: Any = models["data"][0]  # type: ignore[call-overload,index]
            name, served = str(first["id"]), first.get("max_model_len")
        except (TypeError, LookupError) as error:
            raise self._lost("it names no model at v1/models") from error
        try:
            info: Any = self._get("server_info?config_format=json")
            found = info["vllm_config"]["model_config"]["logprobs_mode"]
        except GeneratorLost as error:
            # Among the facts it tells are installed packages, and 0.32 asks pip for them.
            why = f"it does not tell its settings, for which it needs pip ({error.what})"
            raise self._lost(why) from error
        except (TypeError, LookupError) as error:
            raise self._lost("it does not tell its settings") from error
        # Elsewhere a tied head shares the memory of the embedding, and follows it by itself.
        tied = bool(getattr(self._policy.model.config, "tie_word_embeddings", False))
        self._repacks = tied and _device(info) == "cpu"
        if found != self._mode:
            raise self._lost(f"its log-probs are {found}, and these settings need {self._mode}")
        return name, int(served) if served else None

    def _speak(self, turn: Turn) -> Spoken:
        document: dict[str, Json] = {
            "model": self._model,
            "prompt": list(turn.prompt),
            "return_token_ids": True,
            **sampling_fields(turn, self._policy.chat.stop_ids),
        }
        answer: Any = self._post("v1/completions", document, _TURN_SECONDS)
        try:
            choice = answer["choices"][0]
            tokens = [int(token) for token in choice["token_ids"]]
            return Spoken(tokens, [float(each) for each in choice["logprobs"]["token_logprobs"]])
        except (TypeError, LookupError, ValueError) as error:
            raise self._lost("its answer has no token ids or no log-probs") from error

    def _get(self, call: str) -> Json:
        return self._again(
            call,
            lambda: get_json(
                self._address,
                call,
                token=self._token,
                seconds=_LOOK_SECONDS,
                most_bytes=_MOST_BYTES,
            ),
        )

    def _post(self, call: str, document: dict[str, Json], seconds: float) -> Json:
        return self._again(
            call,
            lambda: post_json(
                self._address,
                call,
                document,
                token=self._token,
                seconds=seconds,
                most_bytes=_MOST_BYTES,
            ),
        )

    def _again(self, call: str, ask: Callable[[], Json]) -> Json:
        """Ask, and ask again where that may help: the same turn again is the same chance."""
        for tried in range(1, _TRIES + 1):
            try:
                return ask()
            except RequestFailed as failure:
                if not failure.retry or tried == _TRIES:
                    said = f": {failure.said}" if failure.said else ""
                    raise self._lost(f"/{call}: {failure.reason}{said}") from failure
                self._pause(float(tried))
        raise AssertionError("unreachable")

    def _lost(self, why: str) -> GeneratorLost:
        return GeneratorLost(f"The vLLM server at {self._url}", why, start_hint(self._mode))


def _device(info: Any) -> str:
    """Name the kind of device a server computes on."""
    found = info["vllm_config"].get("device_config") or {}
    device = found.get("device") if isinstance(found, dict) else None
    return str(device.get("type") if isinstance(device, dict) else device).partition(":")[0]


def start_hint(mode: LogprobsMode) -> str:
    """Say how a server is started that can sample for a run."""
    return (
        "Start it with: VLLM_SERVER_DEV_MODE=1 vllm serve MODEL "
        f"--logprobs-mode {mode} --generation-config vllm (on a CPU also --worker-extension-cls "
        f"{EXTENSION}). Then: recollect resume RUN"
    )
