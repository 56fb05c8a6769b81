"""The CPU as a device of verl: what it asks of a GPU, answered for a machine without one.

verl loads this before anything else of ours (VERL_USE_EXTERNAL_MODULES): as soon as one of its
other modules is imported, it looks for its platform.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry

_FREE, _WHOLE = 8 << 30, 16 << 30  # bytes that nobody counts


def _device_module() -> ModuleType:
    """Make a module like torch.cuda, whose memory is never short and whose streams are in step."""
    module = ModuleType("recollect_cpu_device")
    for name in dir(torch.cpu):
        if not name.startswith("__"):
            setattr(module, name, getattr(torch.cpu, name))

    def nothing(*given: Any, **named: Any) -> None:
        return None

    def no_bytes(*given: Any, **named: Any) -> int:
        return 0

    for name in (
        "empty_cache",
        "ipc_collect",
        "reset_peak_memory_stats",
        "synchronize",
        "set_device",
        "manual_seed",
        "manual_seed_all",
        "set_per_process_memory_fraction",
    ):
        setattr(module, name, nothing)
    for name in ("allocated", "reserved"):
        setattr(module, f"memory_{name}", no_bytes)
        setattr(module, f"max_memory_{name}", no_bytes)
    facts: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: "cpu",
        "get_device_name": lambda *given: "cpu",
        "mem_get_info": lambda *given: (_FREE, _WHOLE),
        "get_rng_state": lambda *given: torch.get_rng_state(),
        "set_rng_state": lambda state, *given: torch.set_rng_state(state),
    }
    for name, answer in facts.items():
        setattr(module, name, answer)
    return module


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):  # type: ignore[misc]  # verl is not there to be checked
    """One device for each process, and gloo between them."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _device_module()

    def is_available(self) -> bool:
        """Every machine has one."""
        return True

    def current_device(self) -> Any:
        """The one there is."""
        return "cpu"

    def device_count(self) -> int:
        """One for each process."""
        return 1

    def set_device(self, device_index: int) -> None:
        """There is no other."""

    def synchronize(self, device_index: int | None = None) -> None:
        """Nothing runs behind our back."""

    def manual_seed(self, seed: int) -> None:
        """Seed torch."""
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        """Seed torch."""
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        """There is none to be set."""

    def empty_cache(self) -> None:
        """There is none."""

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        """Nothing that a GPU's number would tell."""
        return (None, None)

    def communication_backend_name(self) -> str:
        """What processes talk over."""
        return "gloo"

    def visible_devices_envvar(self) -> str:
        """A name that nothing else reads."""
        return "RECOLLECT_CPU_VISIBLE"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        """No profiler listens."""
        yield

    def profiler_start(self) -> None:
        """No profiler listens."""

    def profiler_stop(self) -> None:
        """No profiler listens."""

    def ray_resource_name(self) -> str:
        """Logical GPUs: verl asks Ray for nothing else."""
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        """None that matter."""
        return []

    def is_ipc_supported(self) -> bool:
        """Weights travel through Ray."""
        return False

    def cudart(self) -> None:
        """There is none."""
