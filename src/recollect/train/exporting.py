"""The model of a run as a folder that stands alone, for whoever wants to use it elsewhere."""

from __future__ import annotations

import shutil
from pathlib import Path

from recollect.errors import RunMissing, WouldOverwrite
from recollect.train.checkpoint import newest_checkpoint
from recollect.train.folder import RunFolder
from recollect.train.parts import policy_from


def export_model(
    folder: RunFolder, target: Path, *, merge: bool = True, overwrite: bool = False
) -> int:
    """Write the model of a run's newest whole checkpoint; return the checkpoint's step.

    Adapters are merged into the weights, unless `merge` says no: then the folder holds the
    adapters alone and names the model they belong to. The number format of the files stays what
    it is. The target appears whole or not at all; RunMissing where there is no checkpoint.
    """
    if target.exists() and not overwrite:
        raise WouldOverwrite(target)
    config = folder.load()
    checkpoint = newest_checkpoint(folder.checkpoints)
    if checkpoint is None:
        raise RunMissing(folder.path, "the run has no checkpoint yet")
    # Loaded anew, on the CPU: a run that goes on must not feel it.
    model = config.model.model_copy(update={"device": "cpu", "dtype": "stored"})
    policy = policy_from(config.model_copy(update={"model": model}), checkpoint)
    if merge:
        policy.merge()
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".draft_{target.name}")
    shutil.rmtree(draft, ignore_errors=True)
    policy.save(draft)
    if target.exists():
        shutil.rmtree(target)
    draft.rename(target)
    return checkpoint.step
