#!/usr/bin/env bash
# The first step of action.yml: puts a toolkit into the runner's folder, and into the environment of the steps that follow.
# From the files of a release (ROPEWAY_RELEASE: a directory or an address), or built from the repository of the action.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
kit=${RUNNER_TEMP:?}/ropeway

if [[ -n ${ROPEWAY_RELEASE-} && ! -e $kit/set_env.sh ]]; then
	case $(uname -m) in
	x86_64) arch=amd64 ;;
	aarch64) arch=arm64 ;;
	*) echo "::error::ropeway has no release for $(uname -m)" && exit 1 ;;
	esac
	name=ropeway-$(<"$here/VERSION")-linux-$arch
	files=$RUNNER_TEMP/ropeway-files
	mkdir -p "$files"
	for file in "$name.tar.gz" SHA256SUMS; do
		case $ROPEWAY_RELEASE in
		*://*) curl --fail --silent --show-error --location --output "$files/$file" "$ROPEWAY_RELEASE/$file" ;;
		*) cp "$ROPEWAY_RELEASE/$file" "$files/$file" ;;
		esac
	done
	(cd "$files" && grep -F "  $name.tar.gz" SHA256SUMS | sha256sum --check --quiet && tar -xzf "$name.tar.gz")
	"$files/$name/install.sh" --prefix "$kit"
elif [[ ! -e $kit/set_env.sh ]]; then
	make -C "$here" install PREFIX="$kit"
fi

# What set_env.sh sets, for the steps that follow.
# shellcheck disable=SC1091 # it is written above
. "$kit/set_env.sh"
for name in ASCEND_HOME_PATH ASCEND_TOOLKIT_HOME ASCEND_AICPU_PATH ASCEND_OPP_PATH TOOLCHAIN_HOME LD_LIBRARY_PATH PYTHONPATH CMAKE_PREFIX_PATH PKG_CONFIG_PATH; do
	echo "$name=${!name}" >>"$GITHUB_ENV"
done
echo "$kit/bin" >>"$GITHUB_PATH"
echo "toolkit=$kit" >>"$GITHUB_OUTPUT"
ropeway version
