"""What vLLM's own reloading leaves undone on a CPU; it runs in vLLM's worker, here or elsewhere.

On a CPU vLLM packs the output layer's weights into a form of its own. Where the layer is tied to
the embedding, `reload_weights` (0.32) renews the embedding and leaves the packed copy as it was:
the engine would go on sampling with an output layer of older weights.
"""

from __future__ import annotations

from typing import Any

EXTENSION = "recollect.rollout.vllm_worker.Repacking"
REPACK = "repack_heads"


class Repacking:
    """A worker extension for a server: `vllm serve --worker-extension-cls`, see EXTENSION."""

    def repack_heads(self: Any) -> None:
        """Pack the output layers anew from the weights as they are now."""
        repack_heads(self.model_runner.get_model())


def repack_heads(model: Any) -> None:
    """Pack the output layers of a model of vLLM's anew; off a CPU there is nothing to do."""
    from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    for layer in model.modules():
        if isinstance(layer, ParallelLMHead):
            layer.quant_method.process_weights_after_loading(layer)
