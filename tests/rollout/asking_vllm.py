"""A program: asks vLLM in its own process for turns, before and after weights change; says JSON.

An engine leaves traces in the process that it was in, so it gets one to itself.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import torch

from recollect.models.loading import Policy, load_policy, place_of
from recollect.rollout.turns import Turn
from recollect.rollout.vllm import LogprobsMode, VllmEngine
from recollect.types import Sampling

LIMIT = 12
PROMPTS = [[2, 100, 200, 300, 40 + n] for n in range(4)]


def open_engine(policy: Policy, mode: LogprobsMode) -> VllmEngine:
    return VllmEngine(policy, place_of("tiny"), positions=64, rows=4, memory=0.05, mode=mode)


def speak(engine: VllmEngine, sampling: Sampling) -> list[dict[str, Any]]:
    """Ask for a turn after every prompt; gives tokens and log-probs in the prompts' order."""
    for number, prompt in enumerate(PROMPTS):
        engine.ask(number, Turn(prompt, LIMIT, 1000 + number, sampling))
    found = dict(engine.hear())
    while len(found) < len(PROMPTS):
        found.update(engine.hear())
    return [
        {"tokens": list(found[n].tokens), "logprobs": list(found[n].logprobs)}
        for n in range(len(PROMPTS))
    ]


def own(policy: Policy, said: Sequence[dict[str, Any]], temperature: float) -> list[list[float]]:
    """Log-probs of the same tokens by the model that trains."""
    rows = []
    for prompt, each in zip(PROMPTS, said, strict=True):
        ids = torch.tensor([[*prompt, *each["tokens"]]])
        with torch.no_grad():
            logits = policy.model(ids).logits[0, len(prompt) - 1 : -1].float()
        every = torch.log_softmax(logits / temperature, -1)
        rows.append(every.gather(1, ids[0, len(prompt) :, None])[:, 0].tolist())
    return rows


def change(policy: Policy) -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        for weights in policy.model.parameters():
            weights.add_(0.02 * torch.randn_like(weights))


def main() -> dict[str, Any]:
    """Speak with the weights of the start, with others that were not given yet, and with those."""
    policy = load_policy("tiny", device="cpu")
    warm, told = Sampling(0.8), {}
    engine = open_engine(policy, "processed_logprobs")
    engine.renew()
    told["first"] = speak(engine, warm)
    told["first_own"] = own(policy, told["first"], 0.8)
    change(policy)
    told["not_given"] = speak(engine, warm)
    engine.renew()
    told["given"] = speak(engine, warm)
    told["given_own"] = own(policy, told["given"], 0.8)
    told["greedy"] = speak(engine, Sampling(0.0))
    told["greedy_own"] = own(policy, told["greedy"], 1.0)
    engine.close()
    # Another one in the same process, which cuts and tells log-probs before the cut.
    engine = open_engine(policy, "raw_logprobs")
    engine.renew()
    told["cut"] = speak(engine, Sampling(1.0, top_k=5))
    told["cut_own"] = own(policy, told["cut"], 1.0)
    engine.close()
    return told


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(main()) + "\n")
