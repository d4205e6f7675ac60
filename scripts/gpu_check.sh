#!/usr/bin/env bash
# Tests and benches the trainer on this machine's GPU, from the checkout, in under 8 minutes.
#
#     scripts/gpu_check.sh [PYTHON ...]
#
# Nothing is installed into the interpreters: they run the checkout by PYTHONPATH. Without arguments
# they are those of .venv, python3.12, python3.11 and python3 that have torch. What one of them lacks
# besides may lie in a folder named by GPU_CHECK_PACKAGES, made elsewhere for the same Python by
# `pip install --target FOLDER '.[trainer]' pytest` and cleared of torch. The time is shared out among
# the interpreters, and only the first one runs the benches.
#
# Prints one table, and keeps it with all output in the folder GPU_CHECK_OUT (runs/gpu_check).
# Exit code: 0 all well, 1 a step failed or ran out of time, 2 no interpreter can run the trainer,
# 3 there is no GPU. GPU_CHECK_DEVICE=cpu goes through the same steps without one.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly FAILED=1 NO_PYTHON=2 NO_GPU=3
readonly TOTAL_S=450
readonly DEVICE=${GPU_CHECK_DEVICE:-cuda}
OUT=${GPU_CHECK_OUT:-runs/gpu_check}
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
readonly OUT
readonly TESTS=(
    tests/deep_cfr/test_devices.py
    tests/deep_cfr/test_trainer.py
    tests/deep_cfr/test_inference.py
    tests/deep_cfr/test_compile.py
)
readonly PARTS=(server traversal step evaluation workers replay engine)

export PYTHONPATH="$PWD/src:$PWD${GPU_CHECK_PACKAGES:+:$GPU_CHECK_PACKAGES}"
export OMP_NUM_THREADS=1
export NUMBA_CACHE_DIR=${NUMBA_CACHE_DIR:-$OUT/kernels}

failed=0
rows=()

add_row() { # interpreter, step, result, seconds
    rows+=("| $1 | $2 | $3 | $4 |")
}

# Runs a step with its share of the time that is left; its output goes to a file of its own.
step() { # interpreter, name, seconds, command ...
    local label=$1 name=$2 limit_s=$3
    shift 3
    local log="$OUT/$name.log" begun=$SECONDS code=0 left_s=$((TOTAL_S - SECONDS))
    ((limit_s < left_s)) || limit_s=$left_s
    if ((limit_s < 5)); then
        add_row "$label" "$name" "not run: no time left" 0
        failed=1
        return
    fi
    echo "gpu_check: $label: $name, at most $limit_s s" >&2
    timeout --kill-after=5 "$limit_s" "$@" >"$log" 2>"$log.err" || code=$?
    case $code in
        0) add_row "$label" "$name" "well: $(last_line "$log")" "$((SECONDS - begun))" ;;
        124 | 137) add_row "$label" "$name" "ran out of time" "$((SECONDS - begun))" ;;
        *) add_row "$label" "$name" "FAILED ($code): $(last_line "$log.err" "$log")" "$((SECONDS - begun))" ;;
    esac
    ((code == 0)) || failed=1
}

# The last line that says something, of the first of the files that has one.
last_line() {
    local file text
    for file in "$@"; do
        text=$(grep -v '^[[:space:]]*$' "$file" | tail -n 1 | cut -c 1-120 | tr '|' '/') || true
        if [[ -n $text ]]; then
            echo "$text"
            return
        fi
    done
}

# Says what an interpreter lacks to run the trainer and its tests; nothing where it lacks nothing.
lacks() { # python
    "$1" - <<'PY'
import importlib.util as find
import sys

names = ("torch", "numba", "numpy", "pydantic", "ruamel.yaml", "rich", "typer", "matplotlib", "pytest")
missing = []
for name in names:
    try:
        if find.find_spec(name) is None:
            missing.append(name)
    except ModuleNotFoundError:
        missing.append(name)
if sys.version_info < (3, 11):
    missing.append("Python 3.11")
print(" ".join(missing))
PY
}

versions() { # python
    "$1" -c 'import platform, torch; print(f"Python {platform.python_version()}, torch {torch.__version__}")'
}

candidates=("$@")
if ((${#candidates[@]} == 0)); then
    for name in .venv/bin/python python3.12 python3.11 python3; do
        # A name may be there and still run nothing, as those of version managers do.
        if command -v "$name" >/dev/null && "$name" -c 'import torch' 2>/dev/null; then
            candidates+=("$name")
        fi
    done
fi

pythons=()
labels=()
for python in ${candidates[@]+"${candidates[@]}"}; do
    missing=$(lacks "$python" 2>&1 | tail -n 1) || missing="${missing:-a way to start}"
    if [[ -n $missing ]]; then
        add_row "$python" "start" "not run: lacks $missing" 0
        continue
    fi
    label=$(versions "$python")
    # The same interpreter by another name is checked once.
    if [[ " ${labels[*]-} " != *" $label "* ]]; then
        pythons+=("$python")
        labels+=("$label")
    fi
done
if ((${#pythons[@]} == 0)); then
    echo "gpu_check: no interpreter here can run the trainer: ${rows[*]-none has torch};" \
        "name one, or put what it lacks into GPU_CHECK_PACKAGES" >&2
    exit "$NO_PYTHON"
fi

if [[ $DEVICE == cuda ]]; then
    if ! "${pythons[0]}" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
        echo "gpu_check: ${labels[0]} sees no GPU on this machine, nothing was measured;" \
            "GPU_CHECK_DEVICE=cpu goes through the steps without one" >&2
        exit "$NO_GPU"
    fi
    machine=$("${pythons[0]}" -c 'import torch; print(torch.cuda.get_device_name())')
else
    machine="CPU"
fi

for index in "${!pythons[@]}"; do
    python=${pythons[$index]} label=${labels[$index]}
    step "$label" "tests-$index" 150 "$python" -m pytest -q -x -p no:cacheprovider -m 'not slow' "${TESTS[@]}"
    step "$label" "run-$index" 60 "$python" -m coolrl_lost_cities.games.classic.deep_cfr.cli train \
        --set "run.device=$DEVICE" --set "run.out=$OUT/run-$index" --set run.overwrite=true \
        --set run.iterations=2 --set traversal.traversals_per_iteration=128 \
        --set evaluation.eval_every=2 --set evaluation.games=20
done
lines="$OUT/benches.jsonl"
: >"$lines"
for part in "${PARTS[@]}"; do
    step "${labels[0]}" "bench-$part" 75 "${pythons[0]}" -m benchmarks.trainer "$part" --set "run.device=$DEVICE"
    if [[ -f $OUT/bench-$part.log ]]; then
        cat "$OUT/bench-$part.log" >>"$lines"
    fi
done
step "${labels[0]}" "bench-backends" 90 "${pythons[0]}" scripts/bench_inference_backend.py \
    --set "run.device=$DEVICE" --traversals 100

{
    echo "## $machine, $SECONDS s"
    echo
    echo "| interpreter | step | result | s |"
    echo "|---|---|---|---:|"
    printf '%s\n' "${rows[@]}"
    echo
    "${pythons[0]}" -m benchmarks.table <"$lines"
} | tee "$OUT/table.md"
((failed == 0)) || exit "$FAILED"
