"""Loading a policy: a Hugging Face causal language model with its chat, full or with LoRA."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from recollect.errors import ModelMissing
from recollect.models.adapter import has_adapter, read_adapter
from recollect.models.attention import ATTENTION
from recollect.models.catalog import FETCHABLE, folder_of, is_there
from recollect.models.chat import Chat
from recollect.models.columns import Plan as ColumnPlan
from recollect.models.columns import attach, has_columns, read_plan, save_columns

_ADAPTER_WEIGHTS = "adapter_model.safetensors"
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# Other layers (convolutions, states, chunks) carry something from token to token that neither
# our cache nor our packing knows about.
_KNOWN_LAYERS = {"full_attention", "sliding_attention"}


@dataclass(frozen=True, slots=True)
class Lora:
    """Low-rank adapters instead of full fine-tuning. `targets` None = all linear layers."""

    rank: int
    alpha: float
    dropout: float = 0.0
    targets: tuple[str, ...] | None = None


@dataclass(slots=True, eq=False)
class Policy:
    """A model that can be sampled and trained, with its chat and where it came from."""

    model: Any
    chat: Chat
    source: str
    base: str = ""  # what an adapter was put onto; the model itself where there is none
    revision: str | None = None  # the commit of the base, where one was named
    columns: ColumnPlan | None = None

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        device: torch.device = next(self.model.parameters()).device
        return device

    def trainable(self) -> list[tuple[str, torch.nn.Parameter]]:
        """Names and parameters that training changes, in a fixed order."""
        return [(name, p) for name, p in self.model.named_parameters() if p.requires_grad]

    def save(self, folder: Path, weights: dict[str, torch.Tensor] | None = None) -> None:
        """Write an ordinary `save_pretrained` folder (an adapter folder with LoRA).

        `weights` take the place of the model's own, where those are but slices.
        """
        if self.columns is not None:
            save_columns(folder, self.model, self.columns)
            self.chat.tokenizer.save_pretrained(folder)
            return
        # Left to itself, peft asks the hub whether the base model's vocabulary has grown.
        options: dict[str, Any] = {"save_embedding_layers": False} if self.has_adapter else {}
        if weights is not None:
            options["state_dict"] = weights
        with quiet():
            self.model.save_pretrained(folder, **options)
            self.chat.tokenizer.save_pretrained(folder)

    @property
    def has_adapter(self) -> bool:
        """Tell whether adapters train, and not the model's own weights."""
        return hasattr(self.model, "disable_adapter")

    def merge(self) -> None:
        """Add the adapters to the model's own weights, for good. Without adapters nothing happens.

        A merged model gives the same answers but for rounding, stands alone, and costs no more
        than the model it began as.
        """
        if self.has_adapter:
            self.model = self.model.merge_and_unload()


def load_policy(
    name: str,
    *,
    dtype: str = "float32",
    device: str = "auto",
    lora: Lora | None = None,
    gradient_checkpointing: bool = False,
    adapter: Path | None = None,
    seed: int = 0,
    revision: str | None = None,
) -> Policy:
    """Load a model by name: one of ours, a folder, or a hub id. Runs no code from it.

    A folder with an adapter, or with columns, is loaded onto the base model that it names.
    `dtype` auto is bfloat16 on a GPU that has it and float32 elsewhere; stored is that of the
    files. `revision` is the commit of a hub id to load (that of columns' base, too); none is the
    newest. An adapter knows the commit that it was trained on. `adapter` is a folder
    with trained LoRA weights to continue from; new adapters are drawn from `seed`. The model's
    own dropout is switched off: a policy must give the same log-probs when it is trained as when
    it was sampled. Only `lora.dropout`, if somebody asks for it, stays.
    """
    place = _device(device)
    base = name
    plan = read_plan(name) if has_columns(name) else None
    if plan is not None:
        base, lora = plan.base, None
    if has_adapter(base):
        adapter = adapter or Path(base)
        found = read_adapter(base)
        base, revision = found.base, found.revision
    with quiet(), _seeded(seed):
        tokenizer, model = _load(base, _dtype(dtype, place), revision)
        _switch_off_dropout(model)
        if lora is not None or adapter is not None:
            model = _with_lora(model, lora, adapter, revision)
        if plan is not None:
            attach(model, plan, seed, Path(name))
    if gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    model.to(place)
    model.train()
    chat = Chat(tokenizer, _declared_stops(model))
    return Policy(model, chat, place_of(name), place_of(base), revision, plan)


def place_of(name: str) -> str:
    """Spell out where a model lies: the folder of one of ours, else its name."""
    return str(folder_of(name) or name)


def load_chat(name: str) -> Chat:
    """Load a model's tokenizer and chat template alone; `stop_ids` are those that they declare."""
    from transformers import AutoTokenizer

    try:
        source = str(folder_of(name) or name)
        return Chat(AutoTokenizer.from_pretrained(source, trust_remote_code=False))
    except (OSError, ValueError, LookupError, ImportError) as error:
        raise ModelMissing(name, str(error).strip() or type(error).__name__) from error


def _load(name: str, dtype: torch.dtype | str, revision: str | None) -> tuple[Any, Any]:
    from safetensors import SafetensorError
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    ours = folder_of(name)
    if ours is not None and name in FETCHABLE and not is_there(ours):
        why = f"it is not in {ours} yet"
        raise ModelMissing(name, why, f"Fetch it once with: recollect model fetch {name}")
    source = place_of(name)
    which: dict[str, Any] = {"trust_remote_code": False}
    if revision is not None and not Path(source).exists():
        which["revision"] = revision
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **which)
        config = AutoConfig.from_pretrained(source, **which)
        # Set here and not by argument: a field of this name in the model's file would win, and
        # fetch a kernel from the hub or quietly leave our packing out.
        config._attn_implementation = ATTENTION
        model: Any = AutoModelForCausalLM.from_pretrained(
            source,
            config=config,
            dtype=dtype,
            use_safetensors=True,  # the other format is pickle
            **which,
        )
    except (OSError, ValueError, LookupError, ImportError, RuntimeError, SafetensorError) as error:
        raise ModelMissing(name, str(error).strip() or type(error).__name__) from error
    _check_usable(name, model)
    return tokenizer, model


def _check_usable(name: str, model: Any) -> None:
    """Refuse models whose tokens meet elsewhere than in attention: packing would mix rows."""
    strange = set(getattr(model.config, "layer_types", None) or ()) - _KNOWN_LAYERS
    if strange:
        raise ModelMissing(name, f"it has layers of a kind we cannot pack: {sorted(strange)}")
    is_ours = model.config._attn_implementation == ATTENTION and model.is_backend_compatible()
    if not is_ours or getattr(model, "_is_stateful", False):
        raise ModelMissing(name, f"{type(model).__name__} does not let us replace its attention")


def _with_lora(model: Any, lora: Lora | None, adapter: Path | None, revision: str | None) -> Any:
    from peft import LoraConfig, PeftModel, get_peft_model
    from transformers.pytorch_utils import Conv1D

    if adapter is not None:
        if not (adapter / _ADAPTER_WEIGHTS).is_file():  # peft would take the other format, a pickle
            raise ModelMissing(str(adapter), f"it has no {_ADAPTER_WEIGHTS}")
        return _in_order(PeftModel.from_pretrained(model, str(adapter), is_trainable=True))
    assert lora is not None
    targets: str | list[str] = list(lora.targets) if lora.targets else "all-linear"
    settings = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,  # type: ignore[arg-type]  # fractions work
        lora_dropout=lora.dropout,
        target_modules=targets,
        # GPT-2 keeps its weights the other way round.
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in model.modules()),
        task_type="CAUSAL_LM",
        revision=revision,  # of the base: an adapter fits no other
    )
    return _in_order(get_peft_model(model, settings))


def _in_order(model: Any) -> Any:
    """Sort the names of adapted modules: peft keeps a set, and would save it in any order."""
    for settings in model.peft_config.values():
        if isinstance(settings.target_modules, set):
            settings.target_modules = sorted(settings.target_modules)
    return model


def _switch_off_dropout(model: torch.nn.Module) -> None:
    """Set every rate of dropout to 0, whether a module of its own or a number on another one."""
    for module in model.modules():
        if isinstance(module, torch.nn.modules.dropout._DropoutNd):
            module.p = 0.0
        for name, value in vars(module).items():
            if "drop" in name and isinstance(value, float):
                setattr(module, name, 0.0)


def _declared_stops(model: Any) -> list[int]:
    """Give the tokens that the model's author lists as ends of a generated text."""
    found = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    if found is None:
        return []
    return [int(token) for token in (found if isinstance(found, list) else [found])]


def _dtype(name: str, device: torch.device) -> torch.dtype | str:
    if name == "stored":
        return "auto"  # what transformers calls it
    if name == "auto":
        can = device.type == "cuda" and torch.cuda.is_bf16_supported()
        return torch.bfloat16 if can else torch.float32
    return _DTYPES[name]


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Draw new weights from a seed, and leave the global generator as it was."""
    from recollect.randomness import stream_seed

    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(stream_seed(seed, "new weights"))
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Keep progress bars of transformers off the terminal, which has one of ours."""
    from transformers.utils import logging

    was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            logging.enable_progress_bar()
