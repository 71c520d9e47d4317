#!/bin/sh
# install.sh [--prefix DIRECTORY] [--bin DIRECTORY]
#
# Puts the toolkit beside this file into a directory: /opt/ropeway, or ~/.local/opt/ropeway if you are not root. --bin makes a
# link to the command there. Install a newer version over an older one: what is no longer part of it is removed.
# DIRECTORY/uninstall.sh removes what was installed, and nothing else.
set -eu

prefix=/opt/ropeway bin=
[ "$(id -u)" = 0 ] || prefix=$HOME/.local/opt/ropeway

usage() {
	echo "install.sh: $1; it takes --prefix DIRECTORY and --bin DIRECTORY" >&2
	exit 2
}

while [ $# -gt 0 ]; do
	case $1 in
	--prefix | --bin) [ -n "${2-}" ] || usage "$1 needs a directory" ;;
	esac
	case $1 in
	--prefix) prefix=$2 && shift 2 ;;
	--prefix=?*) prefix=${1#*=} && shift ;;
	--bin) bin=$2 && shift 2 ;;
	--bin=?*) bin=${1#*=} && shift ;;
	-h | --help) sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0" && exit ;;
	*) usage "there is no $1" ;;
	esac
done

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
mkdir -p -- "$prefix"
prefix=$(CDPATH='' cd -- "$prefix" && pwd)
list=$prefix/share/ropeway/installed

# A directory with something in it that no installer wrote is not ours.
if [ ! -e "$list" ] && [ -n "$(ls -A -- "$prefix")" ]; then
	echo "install.sh: $prefix is not empty, and ropeway is not installed in it; choose another --prefix" >&2
	exit 1
fi
old=
[ ! -e "$list" ] || old=$(cat -- "$list")

sh "$here/copy.sh" "$here/toolkit" "$prefix"
new=$(cd -- "$here/toolkit" && find . ! -type d | sort)
if [ -n "$bin" ]; then
	mkdir -p -- "$bin"
	bin=$(CDPATH='' cd -- "$bin" && pwd)
	ln -sfn -- "$prefix/bin/ropeway" "$bin/ropeway"
	new="$new
$bin/ropeway"
fi

# Links elsewhere stay in the list until they are removed.
printf '%s\n' "$old" | while IFS= read -r file; do
	case $file in
	./*) printf '%s\n' "$new" | grep -qxF -- "$file" || rm -f -- "$prefix/$file" ;;
	/*) printf '%s\n' "$new" | grep -qxF -- "$file" || printf '%s\n' "$file" ;;
	esac
done >"$list.new"
printf '%s\n' "$new" >>"$list.new"
mv -f -- "$list.new" "$list"

echo "ropeway $(cat -- "$prefix/share/ropeway/VERSION") is in $prefix. To use it in this shell:"
echo "    . $prefix/set_env.sh"
