#!/bin/sh
# qemu.sh PROGRAM FLAGS runs the tests of a program for arm64 in qemu: for "go test -exec".
#
# Each has a qemu of its own, because qemu keeps account of every page that was ever mapped, until it ends. Most tests open a
# machine, which costs it 25 MiB or more: together they would need more memory than there is. docs/toolkit.md repeats what
# is left out, and says what else qemu cannot show.
set -f
program=$1
shift
failed=0
for test in $(qemu-aarch64 "$program" -test.list '^(Test|Example|Fuzz)'); do
	parts=/
	case $test in
	TestFaultPastFileEnd) continue ;; # the address of such a fault is not passed on
	TestOwnPages | TestOnlyCoveredPagesAreBacked | TestChargesBalance | TestFreedPagesAreCachedThenPunched | \
		TestLazyAllocation | TestHugePages | TestWithoutHugePages | TestPopulateFails) continue ;; # madvise does nothing
	TestAddressSpaceLimit | TestSmallAddressSpace) continue ;;                                 # nor does setrlimit
	TestCloseGivesBack) continue ;; # the accounts count as the program's
	TestConformance) continue ;;    # 64 GiB a device; TestConformanceFaulty is the same with 1 GiB
	TestRules | TestBehaviour)      # hundreds of machines each
		parts='/^acl[^r] /^aclrt[A-F] /^aclrt[G-L] /^aclrtM[^e] /^aclrtMem[^c] /^aclrtMemc /^aclrt[N-R] /^aclrt[S-Z]'
		;;
	esac
	for part in $parts; do
		qemu-aarch64 "$program" "$@" -test.run "^$test\$$part" || failed=1
	done
done
exit $failed
