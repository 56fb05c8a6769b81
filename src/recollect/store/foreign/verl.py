"""verl's rollout dumps (`trainer.rollout_data_dir`): one JSON object per line.

    {"input": "...", "output": "...", "gts": "...", "score": 1.0, "step": 5, "acc": true}

Both texts are whole, decoded sequences: what was said by whom within them is not recorded, so the
prompt becomes one message of the user, and the row a demo.
"""

from __future__ import annotations

from typing import Any

from recollect.store.fields import Fields


def row_of_verl(fields: Fields) -> dict[str, Any]:
    """Put one line into our spelling; members that verl's reward functions add stay with it."""
    row: dict[str, Any] = {
        "messages": [
            {"role": "user", "content": fields.take("input")},
            {"role": "assistant", "content": fields.take("output")},
        ],
        "reward": fields.number("score"),
        "step": fields.take("step", 0),
    }
    rest = fields.rest()
    return {**row, "extra": {"verl": rest}} if rest else row
