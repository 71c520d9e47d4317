#!/bin/sh
# test.sh TOOLKIT test|test-all runs the tests in steps, each whatever became of the one before: "make test" and
# "make test-all" call it. TOOLKIT is where the toolkit is built that all tests use. The end says what was skipped
# because a tool is missing; with CI=true that is a failure.
set -u
cd "$(dirname "$0")/../.."
kit=$1 suite=$2
GO=${GO:-go} PYTHON=${PYTHON:-python3}
export ROPEWAY_TEST_TOOLKIT="$kit" PYTHONDONTWRITEBYTECODE=1
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# step NAME TOOLS COMMAND...: a step without its tools is skipped.
step() {
	name=$1 tools=$2
	shift 2
	echo "== $name"
	for tool in $tools; do
		command -v "$tool" >/dev/null && continue
		echo "skipped: $name ($tool is missing: apt-get install $tool)" | tee -a "$log"
		[ "${CI-}" = true ] && failed=$((failed + 1))
		return
	done
	"$@" || { failed=$((failed + 1)) && echo "FAIL $name"; }
}

toolkit() { make --no-print-directory --silent dist DIST="$kit"; }

# go_tests ARGUMENTS... runs "go test". Packages are shown as they end, tests that failed at the end.
go_tests() {
	"$GO" tool -modfile=tools/tools.mod gotestsum --format pkgname --hide-summary skipped --jsonfile "$log.json" --raw-command -- \
		"$GO" test -json -vet=off -trimpath -timeout 60m "$@"
	code=$?
	sed -n 's/.*"Output":" *[^ "]*_test\.go:[0-9]*: \([^"]* is missing[^"]*\)\\n".*/skipped: Go tests (\1)/p' "$log.json" >>"$log"
	rm -f "$log.json"
	return $code
}

site() { "$GO" -C web/site test -vet=off -trimpath ./...; }
releases() { "$GO" -C tools/packaging/release test -vet=off -trimpath ./...; }

# The race detector leaves out packages with nothing concurrent in them, and long tests of one goroutine.
sequential='/(spec|capi|tools|internal/(report|timeline|testenv))(/|$)|/internal/(abi|archtest|compat|doctest|explain|finding|float16|product|random|reduce)$'
alone='^(TestDemo|TestDemoJSON|TestBench|TestBenchProduct|TestFill|TestCopyOverlap|TestCopyAlignments|TestDamagedFiles)$'
race() {
	# shellcheck disable=SC2046 # package paths have no spaces
	CGO_ENABLED=1 go_tests -race -short -skip "$alone" $("$GO" list ./... | grep -vE "$sequential")
}

conformance() {
	ROPEWAY_TEST_CHECK=1 go_tests -run 'TestRules|TestBehaviour|TestEventTable' ./internal/conformance
}

python() { "$PYTHON" python/tests/run.py --toolkit "$kit" "$1"; } # it says itself what it skipped

export CGO_ENABLED=0
step 'build the toolkit' gcc toolkit
case $suite in
test)
	step 'Go tests' '' go_tests -short ./...
	step 'Python tests, on one Python' 'gcc python3' python --one
	;;
test-all)
	step 'Go tests at full length' '' go_tests ./...
	step 'conformance under the checker' '' conformance
	step 'Go tests with the race detector' gcc race
	step 'documentation site' '' site
	step 'releases' '' releases
	step 'Python tests, on all Pythons' 'gcc python3' python --rest
	;;
esac

sort "$log" | uniq -c | sed 's/^ *\([0-9]*\) skipped: Go tests/skipped: \1 Go tests/; s/^ *1 //'
[ $failed = 0 ] || { echo "FAIL make $suite: $failed steps failed" && exit 1; }
echo "ok   make $suite"
