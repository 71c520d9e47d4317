#!/bin/bash
# Runs what "make test-gpu" built on a machine with a GPU and no Go, from the repository's root, and sums it up:
# bin/gpu/run.sh [stage ...]. The stages, all of them if none is named:
#   memcopy      the copy kernels of that CPU
#   driver       the tests of the cuda driver, random batches among them
#   conformance  what AscendCL promises, on the GPU
#   models       random models, with kernels, branches, loops and changes, against the same calls made directly
#   programs     random programs through the C library, for as long as SOAK says (1m)
#   c            the C and C++ programs (gcc), each test a process of its own
#   python       the Python package's tests, with the Pythons of that machine
#   kernels      whether the PTX is that of its source, and its copies byte for byte (nvcc)
#   launch       kernels of programs: those that break the GPU, each in a process of its own; launches against CUDA's own (nvcc)
# Variables: OUT, where the output of each stage and the summary go (bin/gpu/out); DRIVER, cuda, or to try this file where there is
# no GPU: soft, or imitation, which is cuda on an imitation of libcuda; SHORT=1, short forms; TOGETHER=1, all stages at once; SOAK, how
# long random batches and programs run, like 10m; CHECKS, how many random models of each kind; JOBS, C programs at a time; LIMIT, seconds after which a stage is killed.
set -uo pipefail
cd "$(dirname "$0")/../.."
gpu=$PWD/bin/gpu out=${OUT:-$PWD/bin/gpu/out} driver=${DRIVER:-cuda} limit=${LIMIT:-540} jobs=${JOBS:-8}
stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(memcopy driver conformance models programs c python kernels launch)
short=${SHORT:+-test.short}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset CI # tools that are missing there are no failure

if [ "$driver" = imitation ]; then
	gcc -std=gnu11 -shared -fPIC -O1 -Wl,-soname,libcuda.so.1 -o "$work/libcuda.so.1" internal/driver/cuda/imitation/testdata/libcuda.c -lpthread || exit 1
	export LD_PRELOAD=$work/libcuda.so.1
	driver=cuda
fi

memcopy() { cd internal/memcopy && "$gpu/memcopy.test" -test.v $short; }
driver() {
	for part in libcuda gpu memory; do
		(cd "internal/driver/cuda/$part" && "$gpu/$part.test" -test.v $short) || return
	done
	cd internal/driver/cuda && "$gpu/cuda.test" -test.v $short
}
conformance() { cd internal/conformance && ROPEWAY_TEST_DRIVER=$driver "$gpu/conformance.test" -test.v $short; }
models() { cd internal/core/model && ROPEWAY_TEST_DRIVER=$driver "$gpu/models.test" -test.v $short ${CHECKS:+-rapid.checks=$CHECKS}; }
programs() {
	cd capi/test && SOAK=${SOAK:-1m} ROPEWAY_TEST_SEED=random ROPEWAY_TEST_DRIVER=$driver ROPEWAY_TEST_TOOLKIT=$gpu/dist \
		"$gpu/capi.test" -test.v -test.timeout "${limit}s" -test.run '^TestSoakRandom$'
}
python() { python3 python/tests/run.py --toolkit "$gpu/dist" --driver "$driver" --quick; }

c() {
	cd capi/test && export ROPEWAY_TEST_DRIVER=$driver ROPEWAY_TEST_TOOLKIT=$gpu/dist
	"$gpu/capi.test" -test.run '^$'
	"$gpu/capi.test" -test.list . 2>/dev/null | grep '^Test' |
		grep -v '^TestSoak' | xargs -P "$jobs" -I NAME sh -c '"$1" -test.v -test.timeout "$4" -test.run "^$2\$" >"$3/$2" 2>&1 || touch "$3/failed"' \
			sh "$gpu/capi.test" NAME "$work" $((limit * 4 / 5))s
	cat "$work"/Test* | grep -v '^left out \|^testing: warning: no tests to run'
	[ ! -e "$work/failed" ]
}

kernels() {
	command -v nvcc >/dev/null || { echo "left out: there is no nvcc"; return 0; }
	(cd internal/driver/cuda/kernels && "$gpu/kernels.test" -test.v) || return
	[ "$driver" = cuda ] && nvidia-smi >/dev/null 2>&1 || { echo "left out tools/bench/cuda/verify: there is no GPU"; return 0; }
	nvcc -std=c++20 -O2 -arch=native -o "$work/verify" tools/bench/cuda/verify.cu -lcuda && "$work/verify" internal/driver/cuda/kernels/copy.ptx "${VERIFY:-5}"
}

launch() {
	for how in "wild waited for" "wild then a copy" "wild observed by a mark" "wild on the device" "wild many" "trap waited for" "trap many"; do
		(cd internal/driver/cuda && ROPEWAY_TEST_BREAK=$how "$gpu/cuda.test" -test.v -test.run '^TestGPULaunchBreaks$') || return
	done
	local cuda
	cuda=$(command -v nvcc) || { echo "left out the benchmark: there is no nvcc"; return 0; }
	[ "$driver" = cuda ] && nvidia-smi >/dev/null 2>&1 || { echo "left out the benchmark: there is no GPU"; return 0; }
	cuda=$(dirname "$(dirname "$(readlink -f "$cuda")")")
	nvcc -cubin -arch=native -o "$work/gpu.cubin" capi/test/testdata/kernels/gpu.cu &&
		gcc -std=gnu11 -O2 -I"$gpu/dist/include" -I"$cuda/include" -o "$work/launch" tools/bench/cuda/launch.c -L"$gpu/dist/lib64" -lascendcl \
			-Wl,-rpath,"$gpu/dist/lib64" "$(ldconfig -p | sed -n 's/.*libcuda.so.1 .*=> //p' | head -1)" &&
		ROPEWAY_DRIVER=cuda "$work/launch" "$work/gpu.cubin"
}

# perform runs a stage and writes its line of the summary: parts of tests count like tests.
perform() {
	local file=$out/$1.txt start=$SECONDS word=ok
	timeout -k 10 "$limit" bash -c "$1" >"$file" 2>&1 || word="FAIL ($?)"
	awk -v stage="$1" -v word="$word" -v seconds=$((SECONDS - start)) '
		/--- PASS/ { passed++ } /--- SKIP/ { skipped++ } /--- FAIL|^FAIL Python/ { failed++ } /^left out/ { left++ }
		/^ok   Python/ { split($0, part, ": "); passed += part[2]; if (match($0, /[0-9]+ skipped/)) { n = substr($0, RSTART) + 0; skipped += n; passed -= n } }
		END { printf "%-12s %-9s %5d passed %4d skipped %3d failed %4d left out %5d s\n", stage, word, passed, skipped, failed, left, seconds }
	' "$file" | tee "$work/line.$1"
}

export gpu driver work jobs short limit
export -f memcopy driver conformance models programs c python kernels launch
for stage in "${stages[@]}"; do
	if [ -n "${TOGETHER:-}" ]; then perform "$stage" & else perform "$stage"; fi
done
wait
{
	echo "commit   $(cat "$gpu/commit" 2>/dev/null || echo unknown)"
	echo "date     $(date -u '+%Y-%m-%d %H:%M UTC')"
	echo "GPU      $(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || echo none)"
	echo "driver   $(ROPEWAY_DRIVER=$driver "$gpu/dist/bin/ropeway" info 2>/dev/null | sed -n "s/^$driver  *yes  *//p")"
	echo "machine  $(uname -srm), $(nproc) CPUs, $(gcc --version 2>/dev/null | head -1), $(python3 --version 2>&1)"
	for stage in "${stages[@]}"; do cat "$work/line.$stage"; done
} | tee "$out/summary.txt"
for stage in "${stages[@]}"; do
	grep -h -A12 -e '--- FAIL' -e '^panic:' -e '^fatal error' -e '^FAIL Python' "$out/$stage.txt" | head -40
done
! grep -q FAIL "$work"/line.*
