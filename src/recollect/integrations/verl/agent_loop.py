"""Our environments and notes as verl's agent loop: one order is one attempt."""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache
from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput

from recollect.integrations.verl.asking import Order, Played
from recollect.integrations.verl.loss import run_config
from recollect.integrations.verl.playing import Said, Table, lay_table
from recollect.integrations.verl.sampler import ANSWER

ORDER = "order"  # the column that carries an order


@lru_cache(maxsize=1)
def table() -> Table:
    """Lay the table of this process when the first attempt comes."""
    return lay_table(run_config())


class RecollectAgentLoop:
    """Plays the order it is given. verl makes one for every attempt."""

    def __init__(self, server_manager: Any, **unused: Any) -> None:
        self._server = server_manager

    async def run(self, sampling_params: dict[str, Any], **fields: Any) -> AgentLoopOutput:
        """Play to the end. The trajectory travels whole; verl's own fields are only a shell."""
        order = Order.read(str(fields[ORDER]))

        async def speak(prompt: list[int], settings: dict[str, Any]) -> Said:
            # The same name for all turns of an attempt: they go to one server and its cache.
            output = await self._server.generate(
                order.request.id, prompt_ids=prompt, sampling_params=settings
            )
            version = output.extra_fields.get("global_steps")
            return Said(output.token_ids, output.log_probs or (), version)

        return _shell(await table().play(order, speak))


def _shell(played: Played) -> AgentLoopOutput:
    # One token without any say: nobody trains on this, the row comes from the pool.
    return AgentLoopOutput(
        prompt_ids=[0],
        response_ids=[0],
        response_mask=[0],
        response_logprobs=[0.0],
        reward_score=0.0,
        num_turns=played.turns,
        metrics=AgentLoopMetrics(),
        extra_fields={ANSWER: asdict(played), "reward_extra_info": {}},
    )
