#!/bin/bash
# All that a change of the cuda driver is tried with on a GPU, in one go of eight minutes: the suites that "make test-gpu"
# built, then the rows about small copies and few segments, beside the driver of before if "make bench-gpu OLD=COMMIT" has
# built it, then the ways of few segments. once.sh [FOLDER for the results] [seconds for the rows, 130].
set -uo pipefail
cd "$(dirname "$0")/../.."
out=$(mkdir -p "${1:-bin/gpu/out}" && cd "${1:-bin/gpu/out}" && pwd)
failed=0
OUT=$out/programs TOGETHER=1 LIMIT=170 bin/gpu/run.sh c python || failed=1
OUT=$out/suites LIMIT=120 bin/gpu/run.sh driver conformance kernels || failed=1
if command -v "${NVCC:-nvcc}" >/dev/null && [ -x bin/gpu/bench/driver ]; then
	bench/cuda/gpu.sh --rows "submit,round trip,bulk,few" --seconds "${2:-130}" --out "$out/bench" 2>"$out/bench.log" ||
		failed=1
fi
timeout 60 bin/gpu/cuda.test -test.run XXX -test.bench Ways -test.benchtime 300x >"$out/ways.txt" 2>&1 || failed=1
tail -3 "$out/ways.txt"
exit $failed
