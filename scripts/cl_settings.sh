# Sourced by the run_*.sh scripts: what to train, and how to start it, on this machine.
#
# With a GPU a 3B model, without one the built-in tiny model. Set MODEL, DTYPE, RATE, TOKENS, STEPS
# or PYTHON to choose for yourself; whatever follows a script's own arguments goes to the command.
# These scripts begin runs; one that was interrupted goes on with: recollect resume FOLDER
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PYTHON=${PYTHON:-$([ -x .venv/bin/python ] && echo .venv/bin/python || echo python3)}
if command -v nvidia-smi > /dev/null 2>&1 && nvidia-smi > /dev/null 2>&1; then
    MODEL=${MODEL:-Qwen/Qwen2.5-3B-Instruct} DTYPE=${DTYPE:-bfloat16} TOKENS=${TOKENS:-512}
    LARGE_RATE=${RATE:-2e-6} RATE=${RATE:-1e-6} WARMUP=${WARMUP:-10}
else
    MODEL=${MODEL:-tiny} DTYPE=${DTYPE:-float32} TOKENS=${TOKENS:-40}
    LARGE_RATE=${RATE:-1e-3} RATE=${RATE:-5e-4} WARMUP=${WARMUP:-0}
fi
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
TRAIN=recollect.scripts.train_grpo_cl
COMMON="--model_name_or_path $MODEL --model_dtype $DTYPE --max_new_tokens $TOKENS --warmup_steps $WARMUP"
ALL="sequential replay ewc progressive fusion"

# Share of rehearsal: 0.2 where it adapts, 0.3 elsewhere.
ratio() { [ "$1" = adaptive_replay ] && echo 0.2 || echo 0.3; }

# Start the command in one process, or in several: launch PROCESSES FLAGS...
launch() {
    local processes=$1
    shift
    if [ "$processes" -gt 1 ]; then
        "$PYTHON" -m torch.distributed.run --nproc_per_node="$processes" -m "$TRAIN" "$@"
    else
        "$PYTHON" -m "$TRAIN" "$@"
    fi
}

# Run a function for one algorithm, or, where it is called `all`, for the five usual ones.
for_each() {
    local run=$1 algorithm=$2
    shift 2
    if [ "$algorithm" = all ]; then
        for algorithm in $ALL; do "$run" "$algorithm" "$@"; done
    else
        "$run" "$algorithm" "$@"
    fi
}
