"""TRL's side of vs_trl: its GRPOTrainer, step by step; vs_trl.py explains its settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from side_by_side import LEARNING_RATE, SEED, Case, Step, Stopwatch, reward


class Trl:
    """A GRPOTrainer that makes one step at a time, keeping its optimiser."""

    def __init__(self, case: Case, model: Path, prompts: list[str], folder: Path) -> None:
        from datasets import Dataset
        from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback
        from trl import GRPOTrainer

        self._case = case
        self._steps: list[Step] = []
        self.model = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        self._trainer = GRPOTrainer(
            model=self.model,
            args=_trl_settings(case, folder),
            processing_class=AutoTokenizer.from_pretrained(model),
            train_dataset=Dataset.from_dict({"prompt": prompts}),
            reward_funcs=self._judge,
            callbacks=[_trl_callback(self._begin, self._end)],
        )
        self._trainer.remove_callback(PrinterCallback)

    def step(self) -> Step:
        """Make one training step."""
        self._steps.clear()
        self._trainer.train()
        if len(self._steps) != 1:
            raise SystemExit(f"TRL made {len(self._steps)} steps instead of one.")
        return self._steps[0]

    def _begin(self) -> None:
        self._watch = Stopwatch()

    def _judge(
        self, completions: list[str], completion_ids: list[list[int]], **_: object
    ) -> list[float]:
        """Reward function; it is called between generation and training, and so divides them."""
        self._generation = self._watch.seconds
        rewards = [reward(text, {}) for text in completions]
        size = self._case.rows
        groups = [set(rewards[at : at + size]) for at in range(0, len(rewards), size)]
        if min(map(len, groups)) < 2 or len(rewards) != self._case.step_rows:
            raise SystemExit("TRL has a group without signal, or another number of rows.")
        self._tokens = sum(map(len, completion_ids))
        return rewards

    def _end(self) -> None:
        seconds = self._watch.seconds
        training = seconds - self._generation
        done = Step(seconds, self._watch.cpu, self._generation, training, self._tokens)
        self._steps.append(done)


def _trl_settings(case: Case, folder: Path) -> Any:
    """TRL's fastest sensible settings on a CPU; the top of the file has the reasons."""
    from trl import GRPOConfig

    return GRPOConfig(
        output_dir=str(folder),
        seed=SEED,
        use_cpu=True,
        bf16=False,
        fp16=False,
        gradient_checkpointing=False,
        per_device_train_batch_size=case.trl_rows,
        gradient_accumulation_steps=case.step_rows // case.trl_rows,
        num_generations=case.rows,
        max_completion_length=case.tokens,
        generation_kwargs={"min_new_tokens": case.tokens},
        max_steps=1,  # per call of train()
        num_iterations=1,
        beta=0.0,
        loss_type="grpo",
        scale_rewards="group",
        optim="adamw_torch_fused",
        learning_rate=LEARNING_RATE,
        lr_scheduler_type="constant",
        weight_decay=0.0,
        max_grad_norm=1.0,
        use_vllm=False,
        torch_compile=False,
        dataloader_num_workers=0,
        dataloader_pin_memory=False,
        logging_strategy="no",
        save_strategy="no",
        eval_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )


def _trl_callback(begin: Callable[[], None], end: Callable[[], None]) -> Any:
    from transformers import TrainerCallback

    class Times(TrainerCallback):
        def on_step_begin(self, *_: object, **__: object) -> None:
            begin()

        def on_step_end(self, *_: object, **__: object) -> None:
            end()

    return Times()
