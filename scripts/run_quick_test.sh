#!/usr/bin/env bash
# Try an algorithm on two domains in a minute: run_quick_test.sh [ALGORITHM=sequential] [more flags]
set -euo pipefail
. "$(dirname "$0")/cl_settings.sh"
ALGORITHM=${1:-sequential}
shift $(($# < 1 ? $# : 1))

run() {
    local algorithm=$1
    shift
    launch 1 $COMMON --cl_algorithm "$algorithm" --batch_size_per_gpu 2 \
        --gradient_accumulation_steps 1 --num_samples_per_prompt 2 \
        --num_steps_per_task "${STEPS:-5}" --learning_rate "$RATE" --max_tasks_per_domain 3 \
        --task_order airline retail --replay_ratio 0.3 --eval_interval 2 \
        --log_dir "logs/quick_test_$algorithm" "$@"
}
for_each run "$ALGORITHM" "$@"
