#!/bin/sh
# repeat.sh here|clean RUNS BUSY proves that a newcomer's first commands always pass: RUNS times, each in a fresh
# clone of HEAD, it runs "make demo" and "make test", whose results are not taken from the cache. "clean" does it in
# a Debian 12 with Go, gcc and make and nothing else, without a network; that needs mmdebstrap and root. BUSY=1
# keeps all processors busy meanwhile.
#
# A line for each run, all that a failed one printed, and at the end "N of N passed".
set -eu
where=$1 runs=$2 busy=$3
limit=3600 # seconds for one run; nothing comes near
go=${GO:-go}
top=$(cd "$(dirname "$0")/../.." && pwd)
temp=$(mktemp -d "${TMPDIR:-/tmp}/ropeway-repeat.XXXXXX")
load=
trap 'kill $load 2>/dev/null || true; rm -rf "$temp"' EXIT
trap 'exit 1' HUP INT TERM

if [ "$busy" = 1 ]; then
	for _ in $(seq $((2 * $(nproc)))); do
		timeout $((limit * runs)) sh -c 'while :; do :; done' &
		load="$load $!"
	done
fi

room=$temp/room
if [ "$where" = clean ]; then
	echo "make a Debian 12 with gcc and make"
	mmdebstrap --quiet --variant=minbase --include=gcc,libc6-dev,make,ca-certificates bookworm "$room" >/dev/null
	# Go and its modules, as the README's installation and the first build would fetch them.
	cp -R "$($go env GOROOT)" "$room/usr/local/go"
	(cd "$top" && $go mod download && mkdir -p "$room/gopath/pkg" && cp -R "$($go env GOMODCACHE)" "$room/gopath/pkg/mod")
	mkdir "$room/cache"
fi
mkdir -p "$room"

# one runs both commands in the clone.
one() {
	if [ "$where" = clean ]; then
		# shellcheck disable=SC2016 # the inner shell expands
		timeout "$limit" unshare --mount --pid --net --fork --kill-child sh -euc '
			mount -t proc proc "$1/proc"
			mount --rbind /dev "$1/dev"
			ip link set lo up 2>/dev/null || true
			exec chroot "$1" /usr/bin/env -i PATH=/usr/local/go/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/tmp TERM=dumb \
				GOPATH=/gopath GOCACHE=/cache GOPROXY=off GOFLAGS=-count=1 sh -c "cd /clone && make demo && make test"
		' sh "$room"
	else
		# shellcheck disable=SC2016 # the inner shell expands
		GOFLAGS="$($go env GOFLAGS) -count=1" timeout "$limit" sh -c 'cd "$1" && make demo && make test' sh "$room/clone"
	fi
}

passed=0
for i in $(seq "$runs"); do
	rm -rf "$room/clone"
	git clone --quiet "$top" "$room/clone"
	start=$(date +%s)
	if result=$(one >"$temp/log" 2>&1 </dev/null && echo ok); then passed=$((passed + 1)); else
		result=FAIL
		cat "$temp/log"
	fi
	took=$(($(date +%s) - start))
	printf 'run %d of %d: %s, %d:%02d\n' "$i" "$runs" "$result" $((took / 60)) $((took % 60))
	[ "$i" -gt 1 ] || grep '^skipped: ' "$temp/log" || true
done
echo "$passed of $runs passed"
[ "$passed" = "$runs" ]
