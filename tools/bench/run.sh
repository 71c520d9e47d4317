#!/bin/sh
# make bench ROWS=row,row...: runs benchmarks one after the other. docs/benchmarks.md says what each row compares; the Makefile has the variables.
set -eu

need() { # TOOL, what to install
	command -v "$1" >/dev/null 2>&1 || { echo "make bench ROWS=$row: $1 is missing. Install $2." >&2; exit 1; }
}

compile() { $($GO env CC) -std=gnu11 -O2 -Wall -Wextra -I"$DIST/include" "$@"; }

toolkit() { # once
	[ -z "${built:-}" ] || return 0
	built=1
	$MAKE --no-print-directory dist DIST="$DIST" >&2
	mkdir -p bin
}

# program OUT SOURCE... links a C program with the library, which it finds where the toolkit is.
program() {
	out=$1
	shift
	compile -o "$out" "$@" -L"$DIST/lib64" -lascendcl -lpthread -Wl,-rpath,"$DIST/lib64"
}

row_c() {
	toolkit
	program bin/bench-c tools/bench/capi/bench.c tools/bench/baseline/baseline.c
	program bin/bench-launch tools/bench/capi/launch.c
	compile -shared -fPIC -o bin/bench-kernels.so tools/bench/capi/kernels.c
	bin/bench-c "$ROUNDS"
	bin/bench-launch bin/bench-kernels.so "$ROUNDS"
}

row_python() {
	toolkit
	PYTHONPATH="$DIST/python/site-packages" $PYTHON tools/bench/python/bench.py "$ROUNDS"
}

row_check() {
	toolkit
	program bin/bench-overhead tools/bench/overhead/bench.c
	$PYTHON tools/bench/overhead/ratio.py "$row" "$DIST" bin/bench-overhead
}

row_trace() { row_check; }

row_pod() { $GO test -run '^$' -bench '^BenchmarkLinks$' -benchtime 1x -v ./internal/pod; }

row_packages() { $GO test -run '^$' -bench "$BENCH" -benchtime "$BENCHTIME" -benchmem -count "$COUNT" -p 1 ./...; }

# acl FOLDER TOOLKIT: a program that copies through the library, beside it.
acl() {
	mkdir -p "$1/lib64"
	cp "$2/lib64/libascendcl.so" "$2/lib64/libropeway_core.so" "$1/lib64"
	$($GO env CC) -std=gnu11 -O2 -Wall -Wextra -I"$2/include" -o "$1/acl" tools/bench/cuda/acl/bench.c -L"$1/lib64" -lascendcl -Wl,-rpath,'$ORIGIN/lib64'
}

# Builds what tools/bench/cuda/gpu.sh runs where a GPU and nvcc are, with the library of the commit OLD beside this one.
row_gpu() {
	toolkit
	to=bin/gpu/bench
	rm -rf $to
	if [ -n "$OLD" ]; then
		rm -rf bin/gpu/before
		mkdir -p bin/gpu/before
		git archive "$OLD" | tar -x -C bin/gpu/before
		(cd bin/gpu/before && $MAKE --no-print-directory dist DIST="$PWD/dist" >&2)
		acl $to/old bin/gpu/before/dist
		rm -rf bin/gpu/before
	fi
	acl $to "$DIST"
	echo "$(git rev-parse --short HEAD)$(git diff --quiet HEAD || echo ' with changes')" >$to/commit
	du -sh $to
	echo "there: tools/bench/cuda/gpu.sh [--short]"
}

# Verifies and measures the GPU kernels against CUDA itself.
row_cuda() {
	need nvcc "the CUDA toolkit (Debian: apt-get install nvidia-cuda-toolkit)"
	mkdir -p bin
	for cu in verify bench; do
		nvcc -std=c++20 -O2 -arch=native -o bin/cuda-$cu tools/bench/cuda/$cu.cu -lcuda
	done
	nvidia-smi --query-gpu=name,driver_version,pcie.link.gen.current,pcie.link.width.current --format=csv
	bin/cuda-verify internal/driver/cuda/kernels/copy.ptx 10
	bin/cuda-bench internal/driver/cuda/kernels/copy.ptx
}

known=" $(sed -n 's/^row_\([a-z]*\)() .*/\1/p' "$0" | tr '\n' ' ')"
for row in $(echo "$*" | tr , ' '); do
	case $known in
	*" $row "*) ;;
	*) echo "make bench: there is no row \"$row\"; there are$known" >&2; exit 2 ;;
	esac
done
need "$GO" "Go 1.26 or later from https://go.dev/dl/"
need "$($GO env CC)" "gcc (Debian: apt-get install gcc libc6-dev)"
for row in $(echo "$*" | tr , ' '); do
	row_"$row"
done
