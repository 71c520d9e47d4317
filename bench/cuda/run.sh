#!/bin/bash
# Builds and runs the two programs where nvcc and a GPU are: run.sh [directory for the results] [seconds of random batches].
set -euo pipefail
cd "$(dirname "$0")"
out=${1:-.}
kernels=../../internal/driver/cuda/kernels
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
for program in verify bench; do
	${NVCC:-nvcc} -std=c++20 -O2 -arch=native -o "$build/$program" $program.cu -lcuda &
done
wait
nvidia-smi --query-gpu=name,driver_version,pcie.link.gen.current,pcie.link.width.current --format=csv
"$build/verify" $kernels/copy.ptx "${2:-10}" | tee "$out/verify.txt"
"$build/bench" $kernels/copy.ptx | tee "$out/bench.txt"
