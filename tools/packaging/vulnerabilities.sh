#!/bin/sh
# Asks the databases of Go and npm about everything that is linked, bundled or used to build. Exits 1 if they name something. A database that
# cannot be reached is said, and is no failure: CI has to run without one.
set -u
cd "$(dirname "$0")/../.."
GO=${GO:-go}
VERSION=v1.6.0 # of govulncheck; it is no part of go.mod, because nothing else needs it
failed=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# ask NAME COMMAND...: unreachable is what it prints when it got no answer; govulncheck exits with 3 when it got one.
ask() {
	name=$1
	shift
	"$@" >"$out" 2>&1
	code=$?
	if [ $code = 0 ]; then
		echo "$name: nothing is known"
	elif [ $code != 3 ] && grep -Eqi "$unreachable" "$out"; then
		echo "$name: not asked: $(grep -Eim 1 "$unreachable" "$out")"
	else
		echo "$name: FAILED"
		cat "$out"
		failed=1
	fi
}

unreachable='fetching vulnerabilities: |no such host|connection refused|i/o timeout|403 Forbidden|module lookup disabled'
ask 'Go modules' "$GO" run "golang.org/x/vuln/cmd/govulncheck@$VERSION" ./...
ask 'Go modules of the site' "$GO" run "golang.org/x/vuln/cmd/govulncheck@$VERSION" -C web/site ./...
ask 'Go modules of releases' "$GO" run "golang.org/x/vuln/cmd/govulncheck@$VERSION" -C tools/packaging/release ./...
unreachable='audit endpoint returned an error|ENOTFOUND|ECONNREFUSED|ETIMEDOUT|EAI_AGAIN|npm: not found|command not found'
ask 'npm packages' npm --prefix web/report audit --audit-level=low
exit $failed
