# "make" lists the targets. Tools: Go (go.mod says which), make and gcc; every other one is fetched by Go itself.

# Called from elsewhere (make -f path/Makefile): go where the Makefile is, then start again.
SELF := $(strip $(MAKEFILE_LIST))
ifneq ($(SELF),Makefile)
GOALS := $(or $(MAKECMDGOALS),help)
.PHONY: $(GOALS)
$(GOALS):
	@$(MAKE) --no-print-directory -C "$(shell dirname "$(SELF)")" $@
else

SHELL := /bin/sh
GO    ?= go
PYTHON ?= python3

FUZZTIME  ?= 60s
CAMPAIGN  ?= 5
SOAK      ?= 10m
ROUNDS    ?= 15
BENCH     ?= .
BENCHTIME ?= 1s
COUNT     ?= 1

# need TOOL, what to install, Debian package: stops with one line if the tool is missing.
need = @command -v $(1) >/dev/null 2>&1 || { echo "make $@: $(1) is missing. Install $(2) (Debian: apt-get install $(3))." >&2; exit 1; }
needgo = $(call need,$(GO),Go 1.26 or later from https://go.dev/dl/,golang-go)
needgcc = $(call need,$$($(GO) env CC),gcc: cgo and the race detector use it,gcc libc6-dev)

# The toolkit that all tests use.
TESTKIT := $(CURDIR)/bin/toolkit

.DEFAULT_GOAL := help
.PHONY: help demo dist dist-arm64 install man wheel test test-all test-clean test-repeat test-arm64 test-check test-gpu test-python test-release check bench explore fuzz page pictures ptx record release site soak soak-ipc storm vulnerabilities clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo: ## build bin/ropeway and run its demo
	$(needgo)
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ropeway ./cmd/ropeway
	bin/ropeway demo

# The toolkit, in the vendor's layout. DIST says where.
DIST     ?= dist
CFLAGS   ?= -O2
# What the Go linker is told besides: make release leaves out what differs from machine to machine.
GOLINK   ?=

dist: ## write the toolkit, with libascendcl.so, to dist/ (DIST=directory); nothing if nothing has changed
	$(needgo)
	$(needgcc)
	@GO="$(GO)" CFLAGS="$(CFLAGS)" GOLINK="$(GOLINK)" tools/packaging/dist.sh "$(DIST)"

dist-arm64: DIST = dist-arm64
dist-arm64: ## the same for arm64, by a cross compiler, to dist-arm64/
	$(call need,aarch64-linux-gnu-gcc,a cross compiler,gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
	GOARCH=arm64 CC=aarch64-linux-gnu-gcc $(MAKE) --no-print-directory dist DIST="$(DIST)"

install: ## put the toolkit elsewhere; it may be moved later (PREFIX=directory)
	@test -n "$(PREFIX)" || { echo "make install: say where to, like PREFIX=/opt/ropeway" >&2; exit 1; }
	@$(MAKE) --no-print-directory dist
	tools/packaging/copy.sh "$(DIST)" "$(DESTDIR)$(PREFIX)"

man: ## write the manual pages and docs/cli.md anew, from what the commands say of themselves
	$(needgo)
	ROPEWAY_UPDATE=1 $(GO) test -count 1 -run '^TestManual$$' ./cmd/ropeway

wheel: dist ## write a Python wheel, with the libraries inside, to dist/
	$(call need,$(PYTHON),Python 3.9 or later,python3)
	@rm -f "$(DIST)"/ropeway-*.whl
	$(PYTHON) python/backend.py wheel --toolkit "$(DIST)" --out "$(DIST)"

release: ## write everything that is released to release/, from the commit, for amd64 and arm64 (ARCH=): the same bytes wherever it is built
	$(needgo)
	$(call need,aarch64-linux-gnu-gcc,a cross compiler,gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
	$(call need,x86_64-linux-gnu-gcc,gcc for x86-64,gcc-x86-64-linux-gnu)
	$(call need,dpkg-deb,dpkg: it unpacks the libraries of Debian 11 that releases are linked with,dpkg)
	$(call need,$(PYTHON),Python 3.9 or later,python3)
	cd tools/packaging/release && GO="$(GO)" PYTHON="$(PYTHON)" CGO_ENABLED=0 $(GO) run -trimpath . $(addprefix -arch ,$(ARCH))

test-release: ## install what is in release/ in clean systems without Go, by tarball, packages and wheel; 10 minutes (needs mmdebstrap, lintian and root)
	$(call need,mmdebstrap,mmdebstrap,mmdebstrap)
	$(call need,lintian,lintian,lintian)
	$(call need,rpm,rpm,rpm)
	tools/packaging/test-release.sh

RUNTESTS = GO="$(GO)" PYTHON="$(PYTHON)" tools/packaging/test.sh "$(TESTKIT)"

test: ## run the tests: 5 minutes on 2 cores, the same every time
	$(needgo)
	@$(RUNTESTS) test

test-all: ## run the longer proofs after make test: race detector, checker, sanitizers, qemu, browser, all Pythons; 15 minutes
	$(needgo)
	@$(RUNTESTS) test-all

RUNS ?= 20
BUSY ?= 0

test-clean: ## run make demo and make test in a bare Debian 12 with Go, gcc and make, in RUNS=20 fresh clones (needs mmdebstrap and root; BUSY=1)
	$(needgo)
	$(call need,mmdebstrap,mmdebstrap,mmdebstrap)
	GO="$(GO)" tools/packaging/repeat.sh clean $(RUNS) $(BUSY)

test-repeat: ## run make demo and make test in RUNS=20 fresh clones (BUSY=1: on a busy machine)
	$(needgo)
	GO="$(GO)" tools/packaging/repeat.sh here $(RUNS) $(BUSY)

REPEAT ?= 100
RANDOM ?= 10000

test-check: ## the long tests of the checker: each wrong and right program 100 times, 10,000 random programs (REPEAT=, RANDOM=)
	$(needgo)
	$(needgcc)
	CHECK_RANDOM=$(RANDOM) $(GO) test -count=1 -timeout 60m -v ./internal/checktest
	ROPEWAY_CHECK_REPEAT=$(REPEAT) $(GO) test -count=1 -timeout 180m -run TestCheckPrograms ./capi/test

ARM64 := memcopy arena core core/memory core/transfer driver/soft conformance

test-arm64: ## run the tests of the core and the software device for arm64, in qemu
	$(needgo)
	$(call need,qemu-aarch64,qemu,qemu-user)
	GOARCH=arm64 CGO_ENABLED=0 $(GO) test -short -p 1 -timeout 30m -exec $(CURDIR)/tools/packaging/qemu.sh $(ARM64:%=./internal/%)

GPUTESTS := memcopy:internal/memcopy cuda:internal/driver/cuda gpu:internal/driver/cuda/gpu memory:internal/driver/cuda/memory libcuda:internal/driver/cuda/libcuda kernels:internal/driver/cuda/kernels conformance:internal/conformance models:internal/core/model capi:capi/test

test-python: dist ## run the tests of the Python module, with all Pythons that there are
	$(call need,$(PYTHON),Python 3.9 or later,python3)
	$(PYTHON) python/tests/run.py --toolkit "$(DIST)"

test-gpu: ## build into bin/gpu all that bin/gpu/run.sh runs on a machine with a GPU and no Go
	$(needgo)
	$(needgcc)
	@mkdir -p bin/gpu && find bin/gpu -maxdepth 1 -type f -delete
	set -e; for test in $(GPUTESTS); do \
	CGO_ENABLED=0 $(GO) test -c -trimpath -ldflags '-s -w' -o bin/gpu/$${test%:*}.test ./$${test#*:}; done
	@$(MAKE) --no-print-directory dist DIST=bin/gpu/dist
	cp tools/packaging/test-gpu.sh bin/gpu/run.sh
	@echo "$$(git rev-parse --short HEAD)$$(git diff --quiet HEAD || echo ' with changes')" >bin/gpu/commit
	@du -sh bin/gpu; echo "there: bin/gpu/run.sh; bin/gpu/cuda.test -test.run XXX -test.bench . measures"

ptx: ## make the GPU kernels' PTX again, where nvcc is
	$(call need,nvcc,the CUDA toolkit,nvidia-cuda-toolkit)
	internal/driver/cuda/kernels/ptx.sh

check: check-fmt check-vet check-build check-arch check-generated check-noasm check-lint check-tidy ## run everything CI checks besides the tests

ROWS ?= c

bench: ## measure, as ratios in one run: ROWS=c,python,check,trace,pod,gpu,cuda,packages (docs/benchmarks.md)
	@GO="$(GO)" PYTHON="$(PYTHON)" MAKE="$(MAKE)" DIST="$(abspath $(DIST))" ROUNDS="$(ROUNDS)" OLD="$(OLD)" \
		BENCH='$(BENCH)' BENCHTIME="$(BENCHTIME)" COUNT="$(COUNT)" tools/bench/run.sh $(ROWS)

page: ## build the report page anew, from web/report
	$(call need,npm,Node.js 20,npm)
	cd web/report && npm ci --no-audit --no-fund && npm run build

pictures: page dist ## take the pictures of the docs anew, in Chromium
	$(call need,chromium,Chromium,chromium)
	cd web/report && npm run pictures && TOOLKIT="$(abspath $(DIST))" npm run pictures-tutorial

SITE ?= site

site: ## write the documentation as a site that opens from disk, with a page for each function, to site/ (SITE=directory)
	$(needgo)
	cd web/site && CGO_ENABLED=0 $(GO) run -trimpath . -root ../.. -out "$(abspath $(SITE))"

fuzz: ## run the packages with random tests CAMPAIGN=5 times, each with other seeds, and every fuzz target for FUZZTIME=60s
	$(needgo)
	ROPEWAY_TEST_SEED=random $(GO) test -vet=off -count $(CAMPAIGN) -timeout 0 \
		$$(grep -rlE --include='*_test.go' 'testenv(/seeded"|\.Rand\(|\.Seed\()' . | xargs -n 1 dirname | sort -u)
	@set -e; \
	grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort | while IFS=: read -r file func; do \
		name=$${func#func }; dir=$$(dirname "$$file"); \
		echo "$$dir $$name"; \
		$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$dir" </dev/null; \
	done

explore: ## show that the exploration of queues finds seeded faults (about 15 minutes)
	$(needgo)
	ROPEWAY_TEST_FAULTS=1 go test -count=1 -timeout=1h -v -run TestExplorationFindsFaults ./internal/driver/hostqueue ./internal/driver/cuda

soak: ## run the soak tests, each for SOAK=10m
	$(needgo)
	@dirs=$$(grep -rl --include='*_test.go' '^func TestSoak' . | xargs -r -n 1 dirname | sort -u); \
	if [ -z "$$dirs" ]; then echo "make soak: there are no soak tests (func TestSoak...)"; exit 0; fi; \
	SOAK=$(SOAK) $(GO) test -v -count 1 -p 1 -timeout 0 -run '^TestSoak' $$dirs

soak-ipc: ## kill processes that share memory, at any moment, in 1,000 rounds (IPC_ROUNDS)
	$(needgo)
	ROPEWAY_TEST_SEED=$${ROPEWAY_TEST_SEED:-random} IPC_ROUNDS=$${IPC_ROUNDS:-1000} $(GO) test -v -count 1 -timeout 0 -run '^TestKilledAtAnyMoment$$' ./internal/ipctest

storm: ## kill and stop servers of a pod and cut the links between them, in 1,000 rounds (POD_ROUNDS; root: in namespaces)
	$(needgo)
	ROPEWAY_TEST_SEED=$${ROPEWAY_TEST_SEED:-random} POD_ROUNDS=$${POD_ROUNDS:-1000} $(GO) test -v -count 1 -timeout 0 -run '^TestStorm$$' ./internal/pod

vulnerabilities: ## ask the databases of Go and npm about everything that is linked, bundled or used to build
	$(needgo)
	GO="$(GO)" tools/packaging/vulnerabilities.sh

FORCE ?= 0

record: ## write down anew what the release offers, before it is made (tools/compat/); FORCE=1 also where the version does not allow what is lost
	$(needgo)
	$(needgcc)
	@$(MAKE) --no-print-directory dist DIST="$(TESTKIT)"
	ROPEWAY_UPDATE=$(if $(filter 1,$(FORCE)),force,1) ROPEWAY_TEST_TOOLKIT="$(TESTKIT)" $(GO) test -trimpath -count 1 \
		-run '^TestRecord(Go|Commands|ABI|Python)$$' ./internal/compat ./cmd/ropeway ./capi/test

clean: ## delete what was built
	rm -rf bin dist dist-arm64 release site

# The parts of check. Each can be run alone; "make -k check" runs all of them whatever fails. All compile with -trimpath, as
# make dist and make test do: what one has compiled serves the others.
.PHONY: check-fmt check-vet check-build check-arch check-generated check-noasm check-lint check-tidy

check-fmt:
	$(needgo)
	@files=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .) && \
	if [ -n "$$files" ]; then echo "not formatted, run gofmt -w on:" >&2; echo "$$files" >&2; exit 1; fi

# With cgo: what depends on it (capi, no other) is left out without.
check-vet:
	$(needgo)
	$(needgcc)
	CGO_ENABLED=1 $(GO) vet -trimpath ./...
	cd web/site && CGO_ENABLED=0 $(GO) vet -trimpath ./...
	cd tools/packaging/release && CGO_ENABLED=0 $(GO) vet -trimpath ./...

check-build:
	$(needgo)
	$(needgcc)
	CGO_ENABLED=0 $(GO) build -trimpath ./...
	CGO_ENABLED=1 $(GO) build -trimpath ./...
	CGO_ENABLED=0 GOARCH=arm64 $(GO) build -trimpath ./...

check-arch:
	$(needgo)
	CGO_ENABLED=0 $(GO) test -trimpath -vet=off -count 1 ./internal/archtest

# The assembly is generated again in a copy, by the go:generate line of the package, and compared.
check-generated:
	$(needgo)
	$(GO) run ./spec/gen -check
	@if [ -d internal/memcopy/gen ]; then \
		tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && \
		cp -R internal/memcopy "$$tmp" && \
		(cd "$$tmp/memcopy" && rm -f $$(grep -ls '^// Code generated' *) && $(GO) generate memcopy.go) && \
		diff -r internal/memcopy "$$tmp/memcopy" || \
		{ echo "internal/memcopy: the assembly does not come from gen/; run go generate ./internal/memcopy" >&2; exit 1; }; \
	fi

check-noasm:
	$(needgo)
	CGO_ENABLED=0 $(GO) test -trimpath -vet=off -tags noasm ./internal/memcopy

check-lint:
	$(needgo)
	GOFLAGS="$$($(GO) env GOFLAGS) -trimpath" $(GO) tool -modfile=tools/tools.mod staticcheck ./...

check-tidy:
	$(needgo)
	$(GO) mod tidy -diff
	cd web/site && $(GO) mod tidy -diff
	cd tools/packaging/release && $(GO) mod tidy -diff
	@if [ -d internal/memcopy/gen ]; then cd internal/memcopy/gen && $(GO) mod tidy -diff; fi

endif
