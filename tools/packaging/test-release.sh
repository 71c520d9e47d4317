#!/bin/sh
# test-release.sh [RELEASE [OLDER]] shows that a release installs from its files alone, and works, in clean systems without Go
# and without a network: by the tarball, by Debian's packages, by the RPM and by the wheel, on Debian 12 and on Debian 11. The five
# minutes of docs/c.md and docs/python.md pass, upgrading keeps programs working, and uninstalling leaves nothing.
# Without RELEASE it builds one from HEAD, twice, in two folders, and compares them; without OLDER, one of version 0.0.9 from
# the same sources. It needs root, mmdebstrap, lintian and rpm.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
go=${GO:-go}
temp=$(mktemp -d "${TMPDIR:-/tmp}/ropeway-release.XXXXXX")
trap 'rm -rf "$temp"' EXIT
trap 'exit 1' HUP INT TERM
version=$(cat "$top/VERSION")
cpu=$(dpkg --print-architecture)
triplet=$(uname -m)-linux-gnu

say() { printf '%s %s\n' "$(date +%T)" "$*"; }

# The release, and one that is older.

# clone NAME makes a fresh clone of HEAD; what was fetched before is not fetched again.
clone() {
	git clone --quiet "$top" "$temp/$1"
	mkdir -p "$temp/$1/bin/release/sysroot"
	cp "$top"/bin/release/sysroot/*.deb "$temp/$1/bin/release/sysroot" 2>/dev/null || true
}

# build DIRECTORY FLAGS runs a command that is only shown if it fails. The build cache is fresh: a cached result is no proof.
build() {
	(cd "$temp/$1" && shift && GOCACHE="$temp/cache" "$@") >"$temp/log" 2>&1 || {
		cat "$temp/log"
		exit 1
	}
}

if [ $# -gt 0 ]; then
	release=$(cd "$1" && pwd)
else
	for name in one another-folder; do
		clone $name
		build $name make release
		rm -rf "$temp/cache"
	done
	diff -r "$temp/one/release" "$temp/another-folder/release"
	say "ok: two builds in two folders are the same, bit by bit"
	release=$temp/one/release
fi

if [ $# -gt 1 ]; then
	mkdir "$temp/older"
	cp -R "$2" "$temp/older/release"
else
	clone older
	echo 0.0.9 >"$temp/older/VERSION"
	(cd "$temp/older" && "$go" run ./spec/gen && git -c user.name=test -c user.email=test@localhost commit --quiet --all -m 'an older version' &&
		make release ARCH="$cpu") >"$temp/log" 2>&1 || {
		cat "$temp/log"
		exit 1
	}
	say "ok: a release of version 0.0.9, to upgrade from"
fi

# What can be seen from outside.

(cd "$release" && sha256sum --quiet -c SHA256SUMS && [ "$(find . -type f | wc -l)" = "$(($(wc -l <SHA256SUMS) + 1))" ])
say "ok: SHA256SUMS names every file, and fits"
# Until CITATION.cff has a contact, the maintainer is a place that nobody reads.
lintian --fail-on error,warning --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog "$release"/*.deb
say "ok: lintian finds nothing"

# Rooms: systems with a compiler and Python, and neither Go nor a network.

# base SUITE makes the system that rooms are copies of. It is kept.
base() {
	mkdir -p "$top/bin/rooms"
	[ -e "$top/bin/rooms/$1.tar" ] || mmdebstrap --quiet --variant=minbase \
		--include=gcc,g++,libc6-dev,make,python3,python3-venv,pkg-config,cmake,libunwind8 "$1" "$top/bin/rooms/$1.tar" >"$temp/log" 2>&1 || {
		cat "$temp/log"
		exit 1
	}
}

# room SUITE makes a fresh one, with both releases and the pages in it.
room() {
	room=$temp/room
	rm -rf "$room"
	mkdir -p "$room/mine"
	tar -xf "$top/bin/rooms/$1.tar" -C "$room" --exclude='./dev/*'
	cp -R "$release" "$room/release"
	cp -R "$temp/older/release" "$room/older"
	page docs/c.md >"$room/c.sh"
	page docs/python.md >"$room/python.sh"
	[ ! -e "$room/usr/local/go" ] && [ ! -e "$room/usr/bin/go" ]
}

# inside COMMANDS runs them in the room.
inside() {
	# shellcheck disable=SC2016 # the inner shell expands
	timeout 1200 unshare --mount --pid --net --fork --kill-child sh -euc '
		mount -t proc proc "$1/proc"
		mount --rbind /dev "$1/dev"
		exec chroot "$1" /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/mine TERM=dumb ROPEWAY_DEVICE_MEMORY=1GiB sh -euc "$2"
	' sh "$room" "cd; $1" >"$temp/log" 2>&1 </dev/null || {
		cat "$temp/log"
		echo "failed: $1" >&2
		exit 1
	}
}

# page FILE is the section "Five minutes" of a page as a script: files are saved, commands run, what text blocks show
# must be printed. The first block, which builds the toolkit, is left out.
page() {
	awk '
	/^## / { on = $0 == "## Five minutes" }
	!on { next }
	/^```/ && !inside { inside = 1; split($0, word, /[` ]+/); kind = word[2]; name = word[3]; skip = 0
		if (name != "") print "cat >" name " <<\047END-OF-THE-FILE\047"
		else if (kind == "sh" && ++blocks == 1) skip = 1
		else if (kind == "sh") print "exec >/tmp/out"
		next }
	/^```$/ { inside = 0
		if (name != "") print "END-OF-THE-FILE"
		else if (kind == "sh" && !skip) print "exec >&3; cat /tmp/out"
		next }
	inside && (name != "" || kind == "sh" && !skip) { print }
	inside && kind == "text" { print "grep -qxF -- \047" $0 "\047 /tmp/out || { echo \"the page shows: " $0 "\"; exit 1; }" }
	' "$top/$1" | { echo 'set -eu; exec 3>&1'; cat; echo 'rm /tmp/out'; }
}

# things lists all files, but not those in which a system notes what was ever done.
things() {
	(cd "$room" && find . -path ./proc -prune -o -path ./dev -prune -o -path ./release -prune -o -path ./older -prune -o -path ./root -prune -o -path ./mine -prune \
		-o -path ./tmp -prune -o ! -path './var/log/*' ! -path './var/cache/*' ! -path './var/lib/dpkg/*-old' ! -path './etc/ld.so.cache' -print | sort)
}

# nothing_left fails if there is more than there was.
nothing_left() {
	things >"$temp/after"
	diff "$temp/before" "$temp/after" || {
		echo "failed: uninstalling leaves something" >&2
		exit 1
	}
}

# What each way of installing has to do: an old version, a program, the new version, the same program, the pages.

program='cat >try.c <<END
#include <stdio.h>
#include <acl/acl.h>
int main(void)
{
	void *p;
	int bad = aclInit(0) || aclrtSetDevice(0) || aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST) || aclrtFree(p) || aclrtResetDevice(0) || aclFinalize();
	puts(bad ? "bad" : "works");
	return bad;
}
END'
# shellcheck disable=SC2016 # it runs in the room
from_toolkit='
mkdir -p /mine/clone/page && ln -sfn "$kit" /mine/clone/dist
cp -R "$examples" /mine/clone/examples
clone=/mine/clone; . "$kit/set_env.sh"
ropeway check --format sarif --output check.sarif ./try
(cd /mine/clone/page && . /c.sh)
(cd /mine/clone/page && . /python.sh)'

tarball() {
	room "$1"
	things >"$temp/before"
	inside "$program
		tar -xzf /older/ropeway-0.0.9-linux-$cpu.tar.gz && tar -xzf /release/ropeway-$version-linux-$cpu.tar.gz
		ropeway-0.0.9-linux-$cpu/install.sh --prefix /opt/a/ropeway --bin /usr/local/bin
		[ \"\$(ropeway --version)\" = 'ropeway 0.0.9' ]
		gcc try.c -o try -I/opt/a/ropeway/include -L/opt/a/ropeway/lib64 -lascendcl -Wl,-rpath,/opt/a/ropeway/lib64
		./try
		touch /opt/a/ropeway/share/ropeway/gone && echo ./share/ropeway/gone >>/opt/a/ropeway/share/ropeway/installed
		ropeway-$version-linux-$cpu/install.sh --prefix /opt/a/ropeway --bin /usr/local/bin
		[ \"\$(ropeway --version)\" = 'ropeway $version' ] && [ ! -e /opt/a/ropeway/share/ropeway/gone ]
		./try && ropeway run ./try
		kit=/opt/a/ropeway examples=/opt/a/ropeway/share/ropeway/examples $from_toolkit"
	inside "/opt/a/ropeway/uninstall.sh && rmdir /opt/a"
	nothing_left
	say "ok: the tarball on $1: upgrade, the pages, uninstall"
}

packages() {
	room bookworm
	things >"$temp/before"
	inside "$program
		dpkg -i /older/*_$cpu.deb
		gcc try.c -o try \$(pkg-config --cflags --libs ascendcl) && ./try
		python3 -c 'import acl; print(acl.init())'
		dpkg -i /release/*_$cpu.deb
		[ \"\$(ropeway --version)\" = 'ropeway $version' ] && [ \"\$(pkg-config --modversion ropeway)\" = $version ]
		./try
		[ \"\$(python3 -c 'from importlib.metadata import version; print(version(\"ropeway\"))')\" = $version ]
		printf 'cmake_minimum_required(VERSION 3.16)\nproject(x C)\nfind_package(AscendCL REQUIRED)\nadd_executable(x try.c)\n
			target_link_libraries(x AscendCL::ascendcl)\n' >CMakeLists.txt
		cmake -S . -B build && cmake --build build && build/x
		gcc -shared -o /opt/libascendcl.so -Wl,-soname,libascendcl.so -x c - <<-END
			int aclInit(const char *path) { return path ? 1 : 42; }
			END
		update-alternatives --install /usr/lib/$triplet/libascendcl.so libascendcl.so-$triplet /opt/libascendcl.so 100
		printf 'int aclInit(const char *); int main(void) { return aclInit(0); }' >vendor.c && gcc vendor.c -o vendor -lascendcl
		code=0; ./vendor || code=\$?; [ \$code = 42 ]
		ropeway run ./vendor
		update-alternatives --remove libascendcl.so-$triplet /opt/libascendcl.so && rm /opt/libascendcl.so
		./vendor
		kit=/usr/lib/ropeway examples=/usr/share/doc/ropeway/examples $from_toolkit"
	inside "dpkg --purge python3-acl-ropeway libascendcl-ropeway-dev ropeway"
	nothing_left
	say "ok: the packages: upgrade, pkg-config, CMake, a vendor's library beside them, the pages, purge"
}

# The RPM, by the rpm of this machine: the room has none. Debian's packages have other names, so nothing that it needs is looked for.
rpms() {
	room bookworm
	things >"$temp/before"
	rpm --root "$room" --nodeps --install "$release"/ropeway-*."$(uname -m)".rpm
	inside ". /usr/lib/ropeway/set_env.sh
		$program
		[ \"\$(ropeway --version)\" = 'ropeway $version' ]
		gcc try.c -o try \$(pkg-config --cflags --libs ascendcl) && ./try
		kit=/usr/lib/ropeway examples=/usr/share/doc/ropeway/examples $from_toolkit"
	rpm --root "$room" --erase ropeway
	# Where there are RPMs, other packages have these directories.
	(cd "$room/usr/share" && rmdir -p fish/vendor_completions.d zsh/site-functions licenses 2>/dev/null || :)
	rm -rf "$room/var/lib/rpm"
	nothing_left
	say "ok: the RPM: set_env.sh, the pages, removal"
}

wheel() {
	room "$1"
	inside "python3 -m venv --without-pip bare && python3 -m venv env && env/bin/pip --version"
	(cd "$room/mine/env" && find . ! -path '*/__pycache__/*' | sort) >"$temp/before"
	inside "env/bin/pip install --no-index --disable-pip-version-check /older/*.whl
		printf 'import acl\nassert acl.init() == 0 and acl.rt.set_device(0) == 0\nprint(1)\n' >try.py
		[ \"\$(env/bin/python try.py)\" = 1 ]
		env/bin/pip install --no-index --disable-pip-version-check --upgrade /release/*$(uname -m).whl
		[ \"\$(env/bin/ropeway --version)\" = 'ropeway $version' ]
		[ \"\$(env/bin/python try.py)\" = 1 ]
		env/bin/ropeway check env/bin/python try.py
		mkdir -p clone/dist/bin && ln -s ~/env/bin/ropeway clone/dist/bin/ropeway
		tar -xzf /release/ropeway-$version-linux-$cpu.tar.gz && cp -R ropeway-*/toolkit/share/ropeway/examples clone/examples
		clone=/mine/clone PATH=/mine/env/bin:\$PATH; cd clone && . /python.sh"
	inside "env/bin/pip uninstall -y ropeway"
	(cd "$room/mine/env" && find . ! -path '*/__pycache__/*' | sort) >"$temp/after"
	diff "$temp/before" "$temp/after"
	say "ok: the wheel on $1: upgrade, the command, the page, uninstall"
}

# The steps of the Containerfile, in a bare system; its packages come from the network.
container() {
	room=$temp/room
	rm -rf "$room"
	mmdebstrap --quiet --variant=minbase bookworm "$room" >"$temp/log" 2>&1
	cp "$release"/*_"$cpu".deb "$room/tmp"
	cp /etc/resolv.conf "$room/etc/resolv.conf"
	{
		echo 'set -e'
		awk '/^RUN / { on = 1; sub(/^RUN /, "") } on { print } on && !/\\$/ { on = 0 }' "$release/Containerfile"
	} >"$room/steps.sh"
	# shellcheck disable=SC2016 # the inner shell expands
	timeout 1200 unshare --mount --pid --fork --kill-child sh -euc 'mount -t proc proc "$1/proc"; mount --rbind /dev "$1/dev"
		exec chroot "$1" /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/mine ROPEWAY_DEVICE_MEMORY=1GiB sh /steps.sh' \
		sh "$room" >"$temp/log" 2>&1 || {
		cat "$temp/log"
		exit 1
	}
	say "ok: the steps of the Containerfile"
}

# The release for arm64, in qemu, with the glibc 2.31 it was linked with.
arm64() {
	kit=$temp/arm64
	mkdir "$kit" "$temp/kit"
	tar -xzf "$release/ropeway-$version-linux-amd64.tar.gz" -C "$temp/kit" --strip-components=2
	tar -xzf "$release/ropeway-$version-linux-arm64.tar.gz" -C "$kit" --strip-components=1
	sh "$kit/install.sh" --prefix "$kit/installed" >/dev/null
	work=$temp/one/bin/release
	[ -d "$work/sysroot" ] || work=$top/bin/release
	root=$(sed -n 's/.*--sysroot="\([^"]*\)".*/\1/p' "$work/cc-arm64")
	(cd "$kit" && sh -c "$program" && "$work/cc-arm64" try.c -o try -Iinstalled/include -Linstalled/lib64 -lascendcl \
		-Wl,-rpath,"$kit/installed/lib64")
	[ "$(ROPEWAY_DEVICE_MEMORY=1GiB qemu-aarch64 -L "$root" "$kit/try")" = works ]
	qemu-aarch64 -L "$root" "$kit/installed/bin/ropeway" --version | grep -qx "ropeway $version"
	nm -D --defined-only "$kit/installed/lib64/libascendcl.so" | cut -d' ' -f2- | sort >"$temp/symbols-arm64"
	nm -D --defined-only "$temp/kit/lib64/libascendcl.so" | cut -d' ' -f2- | sort | diff - "$temp/symbols-arm64"
	sh "$kit/installed/uninstall.sh"
	[ ! -e "$kit/installed" ]
	say "ok: the tarball for arm64, in qemu, with glibc 2.31; the same symbols as for amd64"
}

base bookworm
base bullseye
tarball bookworm
tarball bullseye
packages
rpms
wheel bookworm
wheel bullseye
[ "$cpu" != amd64 ] || arm64
container
say "everything in $release installs, works, upgrades and uninstalls"
