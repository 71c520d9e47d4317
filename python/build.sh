#!/bin/sh
# Puts the Python package into a toolkit: build.sh DIST. DIST/lib64/libascendcl.so has to be there already. CC and CFLAGS say which
# compiler. The extension needs no headers of Python, and serves every Python from 3.9 on.
set -eu
dist=$1
here=$(dirname "$0")
acl="$dist/python/site-packages/acl"

rm -rf "$acl"
mkdir -p "$acl"
cp "$here"/acl/*.py "$here"/acl/*.pyi "$here"/acl/py.typed "$acl"
cp "$here"/ropeway_pytest.py "$here"/ropeway_jupyter.py "$acl/.."

# shellcheck disable=SC2016,SC2086 # $ORIGIN is for the loader; flags are several words
${CC:-gcc} -shared -fPIC -std=gnu11 -fvisibility=hidden -Wall -Wextra -Wno-deprecated-declarations ${CFLAGS:--O2} \
	-I"$here/../capi/include" -I"$here/../capi/shim" -o "$acl/_fast.abi3.so" "$here/acl/_fast.c" \
	-L"$dist/lib64" -lascendcl -Wl,-z,now,-z,relro -Wl,--enable-new-dtags -Wl,-rpath,'$ORIGIN/lib64:$ORIGIN/../../../lib64:$ORIGIN/../../../ropeway/lib64'
