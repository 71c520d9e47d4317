# Puts this toolkit in front of any other:  . /path/to/set_env.sh  (bin/setenv.bash is the same file)
#
# For bash, zsh, dash, busybox and most others, from any directory, as often as you like. No path is written in here, so
# the toolkit may be moved: the shell says where this file is. A shell that does not (dash, busybox) has the file open while
# it reads it, and Linux knows its name. Where neither helps (ksh93), set ROPEWAY_HOME to the toolkit first.

# Sets _ropeway_home, with links resolved, or says why not.
_ropeway_find() {
	if [ -n "${BASH_VERSION-}" ]; then
		_ropeway_home=${BASH_SOURCE-}
	elif [ -n "${ZSH_VERSION-}" ]; then
		eval '_ropeway_home=${(%):-%x}' # no other shell can read this
	else
		# Not $$, which is another process in a subshell.
		{ IFS=' ' read -r _ropeway_pid _ropeway_rest </proc/self/stat; } 2>/dev/null
		_ropeway_home=$(ls -l "/proc/${_ropeway_pid-}/fd" 2>/dev/null | sed -n 's|^.*[0-9] -> \(/.*/set_env\.sh\)$|\1|p' | tail -n 1)
	fi
	_ropeway_home=$(readlink -f -- "$_ropeway_home")
	_ropeway_home=${_ropeway_home%/*}
	if [ ! -f "$_ropeway_home/lib64/libascendcl.so" ]; then
		_ropeway_home=$(readlink -f -- "${ROPEWAY_HOME-}")
	fi
	if [ ! -f "$_ropeway_home/lib64/libascendcl.so" ]; then
		echo "set_env.sh: this shell does not say where the file is; set ROPEWAY_HOME to its directory and try again" >&2
		return 1
	fi
	case $_ropeway_home in
	*:*)
		echo "set_env.sh: the toolkit's path has a colon in it, which a list of paths cannot hold; move it: $_ropeway_home" >&2
		return 1
		;;
	esac
}

# _ropeway_front DIR LIST sets _ropeway_list to LIST with DIR at the front and nowhere else. No colon follows when that is
# all: an empty part means the current directory.
_ropeway_front() {
	_ropeway_list=:$2:
	while :; do
		case $_ropeway_list in
		*":$1:"*) _ropeway_list=${_ropeway_list%%":$1:"*}:${_ropeway_list#*":$1:"} ;;
		*) break ;;
		esac
	done
	_ropeway_list=${_ropeway_list#:}
	_ropeway_list=${_ropeway_list%:}
	_ropeway_list=$1${_ropeway_list:+:$_ropeway_list}
}

if _ropeway_find; then
	export ASCEND_HOME_PATH="$_ropeway_home"
	export ASCEND_TOOLKIT_HOME="$_ropeway_home"
	export ASCEND_AICPU_PATH="$_ropeway_home"
	export ASCEND_OPP_PATH="$_ropeway_home/opp" # operators; there are none
	export TOOLCHAIN_HOME="$_ropeway_home/toolkit"
	_ropeway_front "$_ropeway_home/lib64" "${LD_LIBRARY_PATH-}"
	export LD_LIBRARY_PATH="$_ropeway_list"
	_ropeway_front "$_ropeway_home/python/site-packages" "${PYTHONPATH-}"
	export PYTHONPATH="$_ropeway_list"
	_ropeway_front "$_ropeway_home" "${CMAKE_PREFIX_PATH-}"
	export CMAKE_PREFIX_PATH="$_ropeway_list"
	_ropeway_front "$_ropeway_home/lib64/pkgconfig" "${PKG_CONFIG_PATH-}"
	export PKG_CONFIG_PATH="$_ropeway_list"
	_ropeway_front "$_ropeway_home/bin" "${PATH-}"
	export PATH="$_ropeway_list"
	unset _ropeway_home _ropeway_list _ropeway_pid _ropeway_rest
	unset -f _ropeway_find _ropeway_front
else
	unset _ropeway_home _ropeway_pid _ropeway_rest
	unset -f _ropeway_find _ropeway_front
	false # the status of the whole file
fi
