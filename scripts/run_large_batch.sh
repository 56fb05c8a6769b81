#!/usr/bin/env bash
# Train with large batches: run_large_batch.sh [GPUS=4] [ALGORITHM=replay] [more flags]
set -euo pipefail
. "$(dirname "$0")/cl_settings.sh"
GPUS=${1:-4} ALGORITHM=${2:-replay}
shift $(($# < 2 ? $# : 2))

run() {
    local algorithm=$1
    shift
    launch "$GPUS" $COMMON --cl_algorithm "$algorithm" --batch_size_per_gpu 6 \
        --gradient_accumulation_steps 2 --num_samples_per_prompt 8 \
        --num_steps_per_task "${STEPS:-150}" --learning_rate "$LARGE_RATE" --kl_coef 0.1 \
        --replay_ratio 0.3 --replay_buffer_size 1500 --eval_interval 10 --save_interval 20 \
        --log_dir "logs/${MODEL##*/}_large_$algorithm" "$@"
}
for_each run "$ALGORITHM" "$@"
