#!/bin/sh
# Puts the Python package into a toolkit: build.sh DIST. DIST/lib64/libascendcl.so has to be there already.
# CC, CFLAGS and PYTHON say which compiler and which Python, PYTHON_INCLUDE where its headers are if not where it says; the extension
# serves every Python from 3.9 on. Without Python's headers for that compiler the package has no extension, and works over ctypes.
set -eu
dist=$1
here=$(dirname "$0")
acl="$dist/python/site-packages/acl"
cc=${CC:-gcc}

rm -rf "$acl"
mkdir -p "$acl"
cp "$here"/acl/*.py "$here"/acl/*.pyi "$here"/acl/py.typed "$acl"
cp "$here"/ropeway_pytest.py "$here"/ropeway_jupyter.py "$acl/.."

include=${PYTHON_INCLUDE:-}
[ -n "$include" ] || include=$("${PYTHON:-python3}" -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null || true)
if ! echo '#include <Python.h>' | $cc -I"$include" -E - >/dev/null 2>&1; then
	echo "$0: no Python.h for $cc, so acl works over ctypes. For the extension install it (Debian: apt-get install python3-dev)." >&2
	exit
fi
# shellcheck disable=SC2016,SC2086 # $ORIGIN is for the loader; flags are several words
$cc -shared -fPIC -std=gnu11 -fvisibility=hidden -Wall -Wextra -Wno-deprecated-declarations ${CFLAGS:--O2} \
	-I"$include" -I"$here/../capi/include" -I"$here/../capi/shim" -o "$acl/_fast.abi3.so" "$here/acl/_fast.c" \
	-L"$dist/lib64" -lascendcl -Wl,-z,now,-z,relro -Wl,--enable-new-dtags -Wl,-rpath,'$ORIGIN/lib64:$ORIGIN/../../../lib64:$ORIGIN/../../../ropeway/lib64'
