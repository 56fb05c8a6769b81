"""The driver of a run under verl: a process on the cluster that opens the machines and trains."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import transfer_queue as tq
from omegaconf import OmegaConf
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ

from recollect.errors import ClusterLost, RecollectError
from recollect.integrations.verl.engine import ClusterEngine, Driver
from recollect.integrations.verl.loss import RUN_VARIABLE
from recollect.integrations.verl.trainer import RecollectTrainer
from recollect.integrations.verl.workplace import Ending, Workplace, ending_of
from recollect.train.folder import RunFolder
from recollect.train.running import open_sinks, run_to_end
from recollect.train.session import open_session


class Runner:
    """What `verl.trainer.main_ppo.run_ppo` starts in its own process. It says how it ended."""

    def run(self, config: Any) -> None:
        """Train until the last step, a signal or an error."""
        folder = RunFolder(Path(os.environ[RUN_VARIABLE]))
        place = Workplace(folder.path)
        try:
            place.end(Ending(signal=_train(config, folder, place)))
        except RecollectError as error:
            place.end(ending_of(error))
        except Exception as error:  # of Ray, verl or ours: the command says it, the log has all
            lines = str(error).strip().splitlines() or [""]
            place.end(ending_of(ClusterLost(f"{type(error).__name__}: {lines[-1][:300]}")))
            raise


def _train(config: Any, folder: RunFolder, place: Workplace) -> int | None:
    config.transfer_queue.enable = True
    OmegaConf.resolve(config)
    tq.init(config.transfer_queue)
    try:
        trainer = RecollectTrainer(config=config)
        trainer.init()
        trainer.agent_loop_manager = AgentLoopManagerTQ.create(
            config=config,
            llm_client=trainer.get_llm_client(),
            teacher_client=trainer.get_teacher_client(),
            reward_loop_worker_handles=trainer.get_reward_handles(),
        )
        driver, engine = Driver(place.stop), ClusterEngine(trainer)
        wanted = place.screen()
        with place.lines.open("a", encoding="utf-8") as lines:
            sinks = open_sinks(
                folder,
                lines,
                progress=False,
                verbose=wanted.verbose,
                log_interval=wanted.log_interval,
            )
            with open_session(folder, sinks, ranks=driver, engine=engine) as session:
                return run_to_end(session)
    finally:
        tq.close()
