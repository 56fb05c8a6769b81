#!/usr/bin/env bash
# Train sequential, replay, ewc and fusion in turn and compare them: run_experiments.sh [GPUS=4]
# Set WANDB_PROJECT to log there too.
set -euo pipefail
. "$(dirname "$0")/cl_settings.sh"
GPUS=${1:-4}
shift $(($# < 1 ? $# : 1))

for algorithm in sequential replay ewc fusion; do
    launch "$GPUS" $COMMON --cl_algorithm "$algorithm" --batch_size_per_gpu 4 \
        --gradient_accumulation_steps 2 --num_samples_per_prompt 4 \
        --num_steps_per_task "${STEPS:-100}" --learning_rate "$RATE" --kl_coef 0.1 \
        --replay_ratio "$(ratio "$algorithm")" --replay_buffer_size 1000 --eval_interval 5 \
        ${WANDB_PROJECT:+--wandb_project "$WANDB_PROJECT"} --log_dir "logs/exp_$algorithm" "$@"
done
"$PYTHON" -m recollect continual-report logs/exp_sequential logs/exp_replay logs/exp_ewc \
    logs/exp_fusion --out logs/exp_report
