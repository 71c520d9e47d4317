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

FUZZTIME  ?= 60s
SOAK      ?= 10m
ROUNDS    ?= 15
BENCH     ?= .
BENCHTIME ?= 1s
COUNT     ?= 1

# need TOOL, what to install, Debian package: stops with one line if the tool is missing.
need = @command -v $(1) >/dev/null 2>&1 || { echo "make $@: $(1) is missing. Install $(2) (Debian: apt-get install $(3))." >&2; exit 1; }
needgo = $(call need,$(GO),Go 1.26 or later from https://go.dev/dl/,golang-go)
needgcc = $(call need,$$($(GO) env CC),gcc: cgo and the race detector use it,gcc libc6-dev)

# Packages with nothing concurrent in them; the race detector runs on all others.
SEQUENTIAL := /spec($$|/)|/internal/(abi|borders|product|testenv)$$

.DEFAULT_GOAL := help
.PHONY: help demo dist test check bench microbench fuzz soak clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: ## build bin/ropeway and run its demo
	$(needgo)
	CGO_ENABLED=0 $(GO) build -o bin/ropeway ./cmd/ropeway
	bin/ropeway demo

# The toolkit, in the vendor's layout. DIST says where.
DIST     ?= dist
CFLAGS   ?= -O2
SHIM     := $(wildcard capi/shim/*.c)
SHIMCC   := -std=gnu11 -fPIC -fvisibility=hidden -Wall -Wextra -Wno-deprecated-declarations -Icapi/include
# nodelete: dlclose must not lose the fork handler. defs and now: a missing symbol shows when it is linked or loaded.
SHIMLD   := -shared -Wl,-soname,libascendcl.so -Wl,-z,nodelete,-z,defs,-z,now,-z,relro

dist: ## write the toolkit, with libascendcl.so, to dist/ (DIST=directory)
	$(needgo)
	$(needgcc)
	mkdir -p $(DIST)/lib64 $(DIST)/bin
	CGO_ENABLED=1 $(GO) build -buildmode=c-shared -trimpath -ldflags '-s -w' -o $(DIST)/lib64/libropeway_core.so ./capi
	rm -f $(DIST)/lib64/libropeway_core.h
	$$($(GO) env CC) $(SHIMCC) $(CFLAGS) -o $(DIST)/lib64/libascendcl.so $(SHIM) $(SHIMLD)
	ln -sf libascendcl.so $(DIST)/lib64/libacl_rt.so
	ln -sf libascendcl.so $(DIST)/lib64/libruntime.so
	CGO_ENABLED=0 $(GO) build -trimpath -o $(DIST)/bin/ropeway ./cmd/ropeway
	rm -rf $(DIST)/include && cp -R capi/include $(DIST)/include

test: ## run all tests, then the concurrent packages under the race detector
	$(needgo)
	$(needgcc)
	$(GO) vet ./...
	$(GO) test ./...
	$(GO) list ./... | grep -Ev '$(SEQUENTIAL)' | CGO_ENABLED=1 xargs $(GO) test -race -short

check: check-fmt check-vet check-build check-borders check-generated check-noasm check-lint check-tidy ## run everything CI checks besides the tests

bench: ## compare the software device with glibc's memcpy, as ratios in one run (ROUNDS=15)
	$(needgo)
	$(needgcc)
	CGO_ENABLED=0 $(GO) run ./bench -rounds $(ROUNDS)

microbench: ## run the packages' own benchmarks (BENCH=pattern BENCHTIME=1s COUNT=1)
	$(needgo)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem -count $(COUNT) -p 1 ./...

fuzz: ## run every fuzz target for FUZZTIME=60s
	$(needgo)
	@set -e; \
	grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort | while IFS=: read -r file func; do \
		name=$${func#func }; dir=$$(dirname "$$file"); \
		echo "$$dir $$name"; \
		$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$dir" </dev/null; \
	done

soak: ## run the soak tests, each for SOAK=10m
	$(needgo)
	@dirs=$$(grep -rl --include='*_test.go' '^func TestSoak' . | xargs -r -n 1 dirname | sort -u); \
	if [ -z "$$dirs" ]; then echo "make soak: there are no soak tests (func TestSoak...)"; exit 0; fi; \
	SOAK=$(SOAK) $(GO) test -v -count 1 -p 1 -timeout 0 -run '^TestSoak' $$dirs

clean: ## delete what was built
	rm -rf bin dist

# The parts of check. Each can be run alone; "make -k check" runs all of them whatever fails.
.PHONY: check-fmt check-vet check-build check-borders check-generated check-noasm check-lint check-tidy

check-fmt:
	$(needgo)
	@files=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .) && \
	if [ -n "$$files" ]; then echo "not formatted, run gofmt -w on:" >&2; echo "$$files" >&2; exit 1; fi

check-vet:
	$(needgo)
	$(needgcc)
	CGO_ENABLED=0 $(GO) vet ./...
	CGO_ENABLED=1 $(GO) vet ./...

check-build:
	$(needgo)
	$(needgcc)
	CGO_ENABLED=0 $(GO) build ./...
	CGO_ENABLED=1 $(GO) build ./...
	CGO_ENABLED=0 GOARCH=arm64 $(GO) build ./...

check-borders:
	$(needgo)
	$(GO) test -count 1 ./internal/borders

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
	$(GO) test -tags noasm ./internal/memcopy

check-lint:
	$(needgo)
	$(GO) tool staticcheck ./...

check-tidy:
	$(needgo)
	$(GO) mod tidy -diff
	@if [ -d internal/memcopy/gen ]; then cd internal/memcopy/gen && $(GO) mod tidy -diff; fi

endif
