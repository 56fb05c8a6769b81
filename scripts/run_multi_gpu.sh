#!/usr/bin/env bash
# Train on several GPUs: run_multi_gpu.sh [GPUS=4] [ALGORITHM=sequential] [more flags]
set -euo pipefail
. "$(dirname "$0")/cl_settings.sh"
GPUS=${1:-4} ALGORITHM=${2:-sequential}
shift $(($# < 2 ? $# : 2))

run() {
    local algorithm=$1
    shift
    launch "$GPUS" $COMMON --cl_algorithm "$algorithm" --batch_size_per_gpu 3 \
        --gradient_accumulation_steps 2 --num_samples_per_prompt 4 \
        --num_steps_per_task "${STEPS:-100}" --learning_rate "$RATE" --kl_coef 0.1 \
        --replay_ratio "$(ratio "$algorithm")" --replay_buffer_size 1000 --eval_interval 5 \
        --log_dir "logs/${MODEL##*/}_${GPUS}gpu_$algorithm" "$@"
}
for_each run "$ALGORITHM" "$@"
