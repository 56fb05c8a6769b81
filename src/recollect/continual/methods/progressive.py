"""progressive: a column of adapters for each domain, beside a frozen model (Rusu et al. 2016).

    a_k = relu(V_k h + sum_{j < k} U_kj a_j)        h + W_k a_k after every layer

Only the newest column trains; it may read what the earlier ones make of its input. A domain is
always answered by its own column, so nothing of it can be lost; a domain without one is answered by
the newest. `recollect.models.columns` has the details.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from recollect.config.schema.config import Config
from recollect.continual.journey import write_whole
from recollect.continual.methods.sequential import Sequential
from recollect.models.columns import Column, Mode, Plan, copy_columns
from recollect.train.folder import absolute_model


class Progressive(Sequential):
    """Gives every domain a column of its own."""

    mode: Mode = "routed"

    def width(self, number: int) -> int:
        """Width of a domain's column."""
        return self.config.model.lora.rank or self.config.continual.columns.width

    @property
    def lateral(self) -> bool:
        """Tell whether columns read earlier ones."""
        return self.config.continual.columns.lateral

    def begin(self, number: int) -> None:
        """Prepare a model with one more column."""
        widths = [self.width(k) for k in range(number + 1)]
        columns = [
            Column(d, w) for d, w in zip(self.journey.order[: number + 1], widths, strict=True)
        ]
        base = absolute_model(self.config.model.name)
        plan = Plan(base, self.mode, self.lateral, tuple(columns))
        before = Path(self.model(number - 1)) if number else Path()
        write_whole(self.journey.start(number), lambda to: copy_columns(before, to, plan))

    def starts_from(self, number: int) -> str:
        """Begin with the prepared model."""
        return str(self.journey.start(number))

    def settings(self, number: int, config: Config) -> Config:
        """The columns are the adapters: no others are made."""
        lora = config.model.lora.model_copy(update={"rank": 0, "targets": None})
        return config.model_copy(update={"model": config.model.model_copy(update={"lora": lora})})

    def summary(self, number: int) -> Mapping[str, float]:
        """Say how wide the column is."""
        return {"column_width": float(self.width(number))}
