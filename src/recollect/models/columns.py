"""Columns: small adapters beside every layer, one per domain, put onto a frozen model.

Progressive networks (Rusu et al. 2016, arXiv:1606.04671) with adapters for columns. After layer l
with output h, column k computes

    a_k = relu(V_k h + sum_{j < k} U_kj a_j)        (the sum only with lateral links)
    routed:  h + W_k a_k                            (k: the column of the domain)
    summed:  h + sum_{j <= K} W_j a_j               (one model that grows)

W starts at 0, so a new column changes nothing until it is trained. Only the newest column trains;
the model and all earlier columns are frozen, so a routed domain can never be lost.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import nn

from recollect.canonical import canonical_json, strict_json
from recollect.errors import ModelMissing
from recollect.randomness import stream_seed

FILE = "columns.json"
_WEIGHTS = "columns.safetensors"
_NAME = "recollect_columns"

Mode = Literal["routed", "summed"]


@dataclass(frozen=True, slots=True)
class Column:
    """One domain's column: how wide it is in every layer."""

    domain: str
    width: int


@dataclass(frozen=True, slots=True)
class Plan:
    """All columns of a model, oldest first, and the model that they stand beside."""

    base: str
    mode: Mode
    lateral: bool
    columns: tuple[Column, ...]


class LayerColumns(nn.Module):
    """The columns beside one layer. `active` is the column that a routed model goes through."""

    def __init__(self, hidden: int, plan: Plan) -> None:
        super().__init__()
        widths = [column.width for column in plan.columns]
        self._summed = plan.mode == "summed"
        self.active = len(widths) - 1
        self.down = nn.ModuleList(nn.Linear(hidden, w, bias=False) for w in widths)
        self.up = nn.ModuleList(nn.Linear(w, hidden, bias=False) for w in widths)
        self.links = nn.ModuleDict()
        if plan.lateral:
            for k, width in enumerate(widths):
                for j in range(k):
                    self.links[f"{k}_{j}"] = nn.Linear(widths[j], width, bias=False)
        with torch.no_grad():
            for parameter in self.up.parameters():
                parameter.zero_()

    def add_to(self, hidden: torch.Tensor) -> torch.Tensor:
        """Add what the columns make of a layer's output [..., H]."""
        made: list[torch.Tensor] = []
        for k in range(self.active + 1):
            into = self.down[k](hidden)
            for j, earlier in enumerate(made):
                if f"{k}_{j}" in self.links:
                    into = into + self.links[f"{k}_{j}"](earlier)
            made.append(torch.relu(into))
        if not self._summed:
            routed: torch.Tensor = hidden + self.up[self.active](made[-1])
            return routed
        for k, each in enumerate(made):
            hidden = hidden + self.up[k](each)
        return hidden

    def hook(self, module: nn.Module, inputs: Any, output: Any) -> Any:
        """Act as a forward hook of the layer."""
        if isinstance(output, tuple):
            return (self.add_to(output[0]), *output[1:])
        return self.add_to(output)


def has_columns(name: str) -> bool:
    """Tell whether a model's name is a folder with columns."""
    return (Path(name) / FILE).is_file()


def read_plan(folder: str) -> Plan:
    """Read which columns a folder has; ModelMissing where that cannot be read."""
    try:
        content: Any = strict_json((Path(folder) / FILE).read_bytes())
        columns = tuple(Column(str(c["domain"]), int(c["width"])) for c in content["columns"])
        mode = content["mode"]
        if mode not in get_args(Mode):
            raise ValueError(f"there is no mode {mode!r}")
        return Plan(str(content["base"]), mode, bool(content["lateral"]), columns)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelMissing(folder, f"{FILE}: {error}") from error


def attach(model: Any, plan: Plan, seed: int, trained: Path | None = None) -> None:
    """Freeze a model and put columns beside its layers, the newest one trainable.

    New weights come from the seed; those in the folder `trained` replace them. It may lack those of
    the newest column, which is then a new one; ModelMissing where it lacks others.
    """
    model.requires_grad_(False)
    layers = decoder_layers(model)
    weight = next(model.parameters())
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(stream_seed(seed, "columns", len(plan.columns)))
        stack = [LayerColumns(_hidden(model), plan) for _ in layers]
    beside = nn.ModuleList(stack)
    if trained is not None:
        _load(beside, trained, len(plan.columns) - 1)
    beside.to(device=weight.device, dtype=weight.dtype)
    for name, parameter in beside.named_parameters():
        parameter.requires_grad_(_column_of(name) == len(plan.columns) - 1)
    for layer, columns in zip(layers, stack, strict=True):
        layer.register_forward_hook(columns.hook)
    model.add_module(_NAME, beside)


def route(model: Any, plan: Plan, domain: str) -> None:
    """Send what follows through the column of a domain; a domain without one gets the newest."""
    if plan.mode == "summed":
        return
    places = {column.domain: place for place, column in enumerate(plan.columns)}
    for layer in getattr(model, _NAME):
        layer.active = places.get(domain, len(plan.columns) - 1)


def write_plan(folder: Path, plan: Plan) -> None:
    """Write the list of columns into a folder."""
    content = json.loads(json.dumps(asdict(plan)))
    (folder / FILE).write_text(canonical_json(content), encoding="utf-8")


def save_columns(folder: Path, model: Any, plan: Plan) -> None:
    """Write the columns' weights and their list into a folder."""
    from safetensors.torch import save_file

    weights = getattr(model, _NAME).state_dict()
    found = {name: value.detach().contiguous().cpu() for name, value in weights.items()}
    save_file(found, str(folder / _WEIGHTS))
    write_plan(folder, plan)


def copy_columns(source: Path, target: Path, plan: Plan) -> None:
    """Make a folder with the columns of another and a list that may name one more."""
    import shutil

    target.mkdir(parents=True, exist_ok=True)
    if (source / _WEIGHTS).is_file():
        shutil.copyfile(source / _WEIGHTS, target / _WEIGHTS)
    write_plan(target, plan)


def decoder_layers(model: Any) -> Sequence[nn.Module]:
    """Find the stack of layers: the longest list of modules that are all of one kind."""
    named: list[list[nn.Module]] = [
        list(module)
        for module in model.modules()
        if isinstance(module, nn.ModuleList)
        and len({type(each) for each in module}) == 1
        and (hasattr(module[0], "self_attn") or hasattr(module[0], "attn"))
    ]
    if not named:
        raise ModelMissing(type(model).__name__, "no stack of attention layers was found in it")
    return max(named, key=len)


def _load(beside: nn.ModuleList, folder: Path, newest: int) -> None:
    """Put trained weights in; an earlier column that began anew would be a domain lost."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    file = folder / _WEIGHTS
    try:
        known = load_file(str(file)) if file.is_file() else {}
        left = beside.load_state_dict(known, strict=False)
    except (OSError, SafetensorError, RuntimeError) as error:
        why = " ".join(str(error).split())  # torch says what does not fit in later lines
        raise ModelMissing(str(folder), f"{_WEIGHTS}: {why}") from error
    lost = [name for name in left.missing_keys if _column_of(name) != newest]
    for what, names in (("lacks", lost), ("has unknown", left.unexpected_keys)):
        if names:
            raise ModelMissing(str(folder), f"{_WEIGHTS} {what} {names[0]}, against its {FILE}")


def _column_of(name: str) -> int:
    """The column a weight belongs to: 1 for `0.down.1.weight` and for `0.links.1_0.weight`."""
    return int(name.split(".")[2].partition("_")[0])


def _hidden(model: Any) -> int:
    return int(model.config.hidden_size)
