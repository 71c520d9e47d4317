#!/bin/bash
# Measures what "make bench ROWS=gpu" built against CUDA itself, where nvcc and a GPU are, and prints one table:
# gpu.sh [--short] [--rows KINDS] [--seconds N] [--out FOLDER]. table.py explains it. If it was
# "make bench ROWS=gpu OLD=COMMIT", the library of that commit takes part.
set -euo pipefail
cd "$(dirname "$0")/../../.."
built=bin/gpu/bench
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
room=1100 # MiB
for word in "$@"; do
	[ "$word" != --short ] || room=300
done
${NVCC:-nvcc} -std=c++20 -O2 -arch=native -o "$build/bench" tools/bench/cuda/bench.cu -lcuda
gpu=$(nvidia-smi --query-gpu=name,driver_version,pcie.link.gen.current,pcie.link.width.current --format=csv,noheader | head -1)
cuda=$(${NVCC:-nvcc} --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')
export ROPEWAY_DRIVER=cuda
old=()
[ ! -x "$built/old/acl" ] || old=(--old "$built/old/acl $room")
python3 tools/bench/cuda/table.py "${old[@]}" \
	--cuda "$build/bench internal/driver/cuda/kernels/copy.ptx serve $room" --acl "$built/acl $room" \
	--about "$(date -u +%Y-%m-%d), commit $(cat $built/commit). GPU, driver, PCIe generation and lanes: $gpu; CUDA $cuda; $(nproc) CPUs." "$@"
