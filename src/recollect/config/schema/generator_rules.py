"""Rules that span sections: what an engine that samples beside the trainer can and cannot do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recollect.config.schema.section import conflict
from recollect.wire.address import url_problem

if TYPE_CHECKING:
    from recollect.config.schema.config import Config


def check_generator(config: Config) -> None:
    """Refuse settings that rollout.engine could not keep, or that mean nothing without it."""
    engine = config.rollout.engine
    _check_url(config)
    if engine == "hf":
        return
    if config.model.lora.rank:
        raise conflict(
            "rollout.engine",
            "model.lora.rank",
            what=f"rollout.engine = {engine} takes whole weights only, and model.lora.rank = "
            f"{config.model.lora.rank} trains adapters",
            change="Set model.lora.rank=0, or rollout.engine=hf.",
        )
    if config.train.parallel == "fsdp2":
        raise conflict(
            "rollout.engine",
            "train.parallel",
            what=f"rollout.engine = {engine} takes whole weights only, and train.parallel = fsdp2 "
            "cuts them",
            change="Set train.parallel=ddp, or rollout.engine=hf.",
        )
    _check_logprobs(config)
    if config.replay.modes and config.draw.choice in ("lowest_entropy", "highest_entropy"):
        raise conflict(
            "draw.choice",
            "rollout.engine",
            what=f"draw.choice = {config.draw.choice} goes by entropies, and rollout.engine = "
            f"{engine} tells none",
            change="Set draw.choice to newest, random or likeliest, or rollout.engine=hf.",
        )


def _check_url(config: Config) -> None:
    engine, url = config.rollout.engine, config.rollout.url
    if engine == "vllm-server" and url is None:
        raise conflict(
            "rollout.engine",
            "rollout.url",
            what="rollout.engine = vllm-server, but rollout.url does not say where it is",
            change="Set rollout.url, such as http://127.0.0.1:8000.",
        )
    if engine != "vllm-server" and url is not None:
        raise conflict(
            "rollout.url",
            "rollout.engine",
            what=f"rollout.url is set, but rollout.engine = {engine} asks no server",
            change="Set rollout.engine=vllm-server, or remove rollout.url.",
        )
    if url is not None and url_problem(url):
        raise conflict(
            "rollout.url",
            what=f"rollout.url: {url_problem(url)}",
            change="Give the address of the server, such as http://127.0.0.1:8000.",
        )


def _check_logprobs(config: Config) -> None:
    """Refuse mixtures: vLLM tells log-probs before temperature and cuts, or after both."""
    r, e = config.rollout, config.eval
    if r.top_p >= 1 and not r.top_k:
        return
    cut = f"rollout.top_p = {r.top_p:g} and rollout.top_k = {r.top_k}"
    for key, value, allowed in (
        ("rollout.temperature", r.temperature, (1.0,)),
        ("eval.temperature", e.temperature, (0.0, 1.0)),
    ):
        if value not in allowed:
            raise conflict(
                "rollout.engine",
                key,
                "rollout.top_p",
                "rollout.top_k",
                what=f"rollout.engine = {r.engine} cannot tell log-probs at {key} = {value:g} "
                f"before a cut ({cut}), and no training pass gives those after it again",
                change=f"Set rollout.top_p=1 and rollout.top_k=0, or {key}=1.",
            )
