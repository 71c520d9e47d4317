#!/bin/sh
# copy.sh FROM TO makes the toolkit TO what FROM is.
#
# A file is replaced by renaming a new one over it: a program that has the old one open keeps it whole, and nobody ever
# sees half a file. What is already the same is left alone, and so keeps its time. Headers that FROM has no longer are
# removed; nothing else is. What dist.sh notes of its inputs stays where it is.
set -eu

mkdir -p -- "$2"
to=$(CDPATH='' cd -- "$2" && pwd)
cd -- "$1"

# Everything is for all users to read, whatever the umask.
mode() {
	case $1 in
	./bin/* | *.so | ./uninstall.sh) echo 755 ;;
	*) echo 644 ;;
	esac
}

find . -type d ! -name . | sort | while IFS= read -r dir; do
	if [ -L "$to/$dir" ]; then rm -- "$to/$dir"; fi # from an older toolkit
	[ -d "$to/$dir" ] || mkdir -m 755 -- "$to/$dir"
done

find . ! -type d ! -name .inputs | sort | while IFS= read -r file; do
	old=$to/$file
	new=${old%/*}/.${file##*/}.$$
	if [ -L "$file" ]; then
		target=$(readlink -- "$file")
		[ "$(readlink -- "$old")" = "$target" ] || { ln -s -- "$target" "$new" && mv -fT -- "$new" "$old"; }
	elif ! cmp -s -- "$file" "$old"; then
		install -m "$(mode "$file")" -- "$file" "$new" && mv -fT -- "$new" "$old"
	fi
done

(cd -- "$to" && find include/acl -type f) | while IFS= read -r header; do
	[ -e "$header" ] || rm -- "$to/$header"
done
