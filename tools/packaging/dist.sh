#!/bin/sh
# dist.sh DIST writes the toolkit, in the vendor's layout. If the one in DIST was made of the same sources with the same settings,
# it does nothing. GO is the go command, CFLAGS are for C, and GOLINK is what the Go linker is told besides.
set -eu
dist=$1
: "${GO:=go}" "${CFLAGS=-O2}" "${GOLINK=}"
CC=$("$GO" env CC)
export CC CFLAGS
mkdir -p -- "$dist"

# The core's heap stays where Go had it before 1.26, below 2 TiB: at random places it may lie where programs ask for
# addresses (aclrtReserveMemAddress). A Go that does not know the setting builds without it.
heap=GOEXPERIMENT=norandomizedheapbase64
env $heap "$GO" env GOEXPERIMENT >/dev/null 2>&1 || heap=

# inputs prints all that the toolkit depends on: settings, the commit, which commands name, and the sums of files.
inputs() {
	echo "$heap $CFLAGS $GOLINK"
	"$GO" env GOVERSION GOFLAGS GOARCH GOAMD64 GOARM64 CC CGO_CFLAGS CGO_LDFLAGS
	$CC --version
	git rev-parse HEAD 2>/dev/null || :
	[ -z "$(git status --porcelain 2>/dev/null)" ] || echo changed
	find . \( -samefile "$dist" -o -name '.?*' -o -name node_modules -o -path ./bin -o -path './dist*' -o -path ./release -o -path ./site \
		-o -path ./docs -o -path ./examples \) -prune -o -type f ! -name '*_test.go' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
}

# The first line of the stamp is the sum of the inputs, the others are the files that were made of them.
sum=$(inputs | sha256sum)
if [ "$(head -n 1 "$dist/.inputs" 2>/dev/null)" = "$sum" ] && (cd "$dist" && tail -n +2 .inputs | xargs ls -d) >/dev/null 2>&1; then
	exit
fi

# Everything is built to one side, then put in place file by file, so that the toolkit can be in use meanwhile.
new=$dist/.new
rm -rf "$new"
mkdir -p "$new/lib64/pkgconfig" "$new/lib64/cmake/AscendCL" "$new/lib64/stub" "$new/bin" "$new/share/cmake" "$new/share/info/runtime" \
	"$new/devlib/linux"

say() {
	printf '%s\n' "$*"
	"$@"
}

# c FILE SOURCE... -- FLAG... compiles and links C.
c() {
	file=$1
	shift
	# shellcheck disable=SC2086 # both may be several words
	say $CC -std=gnu11 -fPIC -fvisibility=hidden -Wall -Wextra -Wno-deprecated-declarations -Icapi/include $CFLAGS -o "$new/$file" "$@" \
		-Wl,-z,now,-z,relro -lpthread -ldl
}

# pthread and dl are part of libc from glibc 2.34 on, and libraries of their own before. nodelete: dlclose must not lose the fork
# handler. defs: a missing symbol shows when it is linked.
say env CGO_ENABLED=1 $heap "$GO" build -buildmode=c-shared -trimpath -ldflags "-s -w $GOLINK" -o "$new/lib64/libropeway_core.so" ./capi
rm -f "$new/lib64/libropeway_core.h"
c lib64/libascendcl.so capi/shim/*.c -shared -Wl,-soname,libascendcl.so -Wl,-z,nodelete,-z,defs
# Frame pointers: where there is no unwinder, stacks are followed by them, through our own functions first.
c lib64/libropeway_check.so -fno-omit-frame-pointer capi/check/*.c -shared -Wl,-soname,libropeway_check.so -Wl,-z,nodelete,-z,defs
say python/build.sh "$new"
say env CGO_ENABLED=0 "$GO" build -trimpath -ldflags "-s -w $GOLINK" -o "$new/bin/ropeway" ./cmd/ropeway

cp -R capi/include "$new/include"
cp tools/packaging/ascendcl.pc tools/packaging/ropeway.pc "$new/lib64/pkgconfig"
cp tools/packaging/AscendCL*.cmake "$new/lib64/cmake/AscendCL"
cp tools/packaging/set_env.sh "$new"
cp tools/packaging/version.info "$new/share/info/runtime"
cp -R tools/packaging/man "$new/share/man"
cd "$new"
ln -s ../../lib64/cmake/AscendCL share/cmake/AscendCL
ln -s ../set_env.sh bin/setenv.bash

# Names under which builds link parts of the runtime: all are the one library.
also='acl_rt acl_rt_impl runtime acl_tdt_channel acl_tdt_queue msprofiler profapi acl_prof ascend_dump platform'
for name in $also; do ln -s libascendcl.so "lib64/lib$name.so"; done
for name in ascendcl $also; do
	ln -s ../libascendcl.so "lib64/stub/lib$name.so"
	ln -s ../lib64/libascendcl.so "devlib/lib$name.so"
done

case $("$GO" env GOARCH) in amd64) cpu=x86_64 ;; arm64) cpu=aarch64 ;; *) cpu= ;; esac
if [ "$cpu" ]; then
	for dir in $cpu-linux acllib runtime toolkit; do
		mkdir "$dir"
		ln -s ../include ../lib64 "$dir"
	done
	ln -s ../bin ../devlib $cpu-linux
	ln -s ../../lib64 devlib/linux/$cpu
	ln -s ../share/info/runtime/version.info runtime
	printf 'os=linux\nos_version=\narch=%s\n' $cpu >share/info/runtime/scene.info
	sed -n 's/^Version=/version=/p' share/info/runtime/version.info >$cpu-linux/ascend_toolkit_install.info
	printf 'arch=%s\nos=linux\n' $cpu >>$cpu-linux/ascend_toolkit_install.info
fi
made=$(find . ! -type d)
cd "$OLDPWD"
tools/packaging/copy.sh "$new" "$dist"
rm -rf "$new"
printf '%s\n' "$sum" "$made" >"$dist/.inputs"
