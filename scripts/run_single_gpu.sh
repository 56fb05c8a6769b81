#!/usr/bin/env bash
# Train in one process, on a GPU or a CPU: run_single_gpu.sh [ALGORITHM=sequential] [more flags]
set -euo pipefail
. "$(dirname "$0")/cl_settings.sh"
ALGORITHM=${1:-sequential}
shift $(($# < 1 ? $# : 1))

run() {
    local algorithm=$1
    shift
    launch 1 $COMMON --cl_algorithm "$algorithm" --batch_size_per_gpu 4 \
        --gradient_accumulation_steps 2 --num_samples_per_prompt 4 \
        --num_steps_per_task "${STEPS:-100}" --learning_rate "$RATE" --kl_coef 0.1 \
        --replay_ratio "$(ratio "$algorithm")" --replay_buffer_size 1000 --eval_interval 5 \
        --log_dir "logs/${MODEL##*/}_$algorithm" "$@"
}
for_each run "$ALGORITHM" "$@"
