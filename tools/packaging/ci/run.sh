#!/usr/bin/env bash
# The second step of action.yml: checks or traces ROPEWAY_RUN, and says where the reports are. It ends as ropeway does.
set -euo pipefail
report=${RUNNER_TEMP:?}/ropeway-report
mkdir -p "$report"
{
	echo "report=$report"
	echo "sarif=$report/check.sarif"
} >>"$GITHUB_OUTPUT"

case ${ROPEWAY_MODE:?} in
check) words=(ropeway check --annotate --format sarif --output "$report/check.sarif" --report "$report/report.html") ;;
trace) words=(ropeway trace -o "$report/report.html") ;;
*) echo "::error::mode is install, check or trace, not $ROPEWAY_MODE" && exit 2 ;;
esac
[[ -n ${ROPEWAY_RUN-} ]] || { echo "::error::run is missing: the program, and its arguments" && exit 2; }
flags=() run=()
eval "flags=(${ROPEWAY_FLAGS-}) run=($ROPEWAY_RUN)"

code=0
"${words[@]}" "${flags[@]}" -- "${run[@]}" || code=$?
echo "exit-code=$code" >>"$GITHUB_OUTPUT"
exit "$code"
