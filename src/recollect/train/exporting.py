"""The model of a run as a folder that stands alone, for whoever wants to use it elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from recollect.errors import WouldOverwrite
from recollect.train.checkpoint import flush, flush_all, remove
from recollect.train.folder import RunFolder
from recollect.train.parts import trained_policy


def export_model(
    folder: RunFolder,
    target: Path,
    *,
    merge: bool = True,
    overwrite: bool = False,
    tell: Callable[[str], None] = lambda damage: None,
) -> int:
    """Write the model of a run's newest whole checkpoint; return the checkpoint's step.

    Adapters are merged into the weights, unless `merge` says no: then the folder holds the
    adapters alone and names the model they belong to. The number format of the files stays what
    it is. The target appears whole or not at all; RunMissing where there is no checkpoint. `tell`
    hears of damaged ones that are passed over.
    """
    if target.exists() and not overwrite:
        raise WouldOverwrite(target)
    config = folder.load()
    # Loaded anew, on the CPU: a run that goes on must not feel it.
    model = config.model.model_copy(update={"device": "cpu", "dtype": "stored"})
    policy, checkpoint = trained_policy(folder, config.model_copy(update={"model": model}), tell)
    if merge:
        policy.merge()
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".draft_{target.name}")
    shutil.rmtree(draft, ignore_errors=True)
    policy.save(draft)
    flush_all(draft)
    remove(target)
    draft.rename(target)
    flush(target.parent)
    return checkpoint.step
