#!/bin/sh
# uninstall.sh removes what install.sh has put into this directory, and the directory if nothing else is in it.
set -eu
prefix=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
list=$prefix/share/ropeway/installed
[ -f "$list" ] || {
	echo "uninstall.sh: $list is missing: this is not a directory that install.sh wrote" >&2
	exit 1
}
files=$(cat -- "$list")
cd -- "$prefix"
printf '%s\n' "$files" | while IFS= read -r file; do
	case $file in
	./*) rm -f -- "$file" ;;
	/*) # the link to the command, if it still is one
		[ "$(readlink -- "$file")" != "$prefix/bin/ropeway" ] || rm -f -- "$file"
		;;
	esac
done
rm -f -- "$list"
# What Python has compiled.
find . -path './python/*' -name __pycache__ -type d -prune -exec rm -r -- {} +
cd /
find "$prefix" -depth -type d -empty -delete
[ ! -d "$prefix" ] || echo "uninstall.sh: $prefix has other files in it, and stays"
