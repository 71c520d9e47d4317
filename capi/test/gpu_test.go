package capitest

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// testDriver is the driver that programs use, "" for the software device.
var testDriver = os.Getenv("ROPEWAY_TEST_DRIVER")

// onGPU: the driver is cuda, and libcuda is no imitation.
var onGPU = testDriver == "cuda" && !strings.Contains(os.Getenv("LD_PRELOAD"), "libcuda")

// Reasons not to run a test on another driver than the software device.
const (
	noDevice = "it proves headers, files or scripts of the toolkit, and none of them depends on the driver"
	needsGo  = "it makes the toolkit, which needs Go"
	checker  = "the checker watches pages of the software device"
	tools    = "sanitizers and valgrind know the memory of the C library, not that of a GPU's driver"
	pod      = "a pod's memory is that of the software device"
	limited  = "it limits the addresses that the software device takes"
)

// onlySoft are the tests, as patterns of -test.skip, that run on the software device only, and why.
var onlySoft = map[string]string{
	"^TestCheck":   checker,
	"^TestAction$": checker, "^TestGitLab$": checker, "^TestPreCommitHook$": checker, "^TestProblemMatcher$": checker,
	"^TestFabric": pod, "^TestTwoServers$": pod,
	"^TestHeader": noDevice, "^TestSetEnv": noDevice, "^TestSymbols$": noDevice, "^TestCoreMissing$": noDevice,
	"^TestFake$":   noDevice,
	"^TestPageCI$": noDevice, "^TestPageMissing$": noDevice, "^TestPkgConfig$": noDevice,
	"^TestSampleBuilds$": noDevice, "^TestLinkNames$": noDevice, "^TestNeededByAnotherName$": noDevice,
	"^TestVersionInfo$": noDevice,
	"^TestCMake":        noDevice, "^TestNotTheRuntime$": noDevice,
	"^TestDist": needsGo, "^TestCopyReplaces$": needsGo, "^TestInstallAndMove$": needsGo, "^TestOldestGlibc$": needsGo,
	"^TestArm64$":   needsGo,
	"^TestSanitize": tools, "^TestOrder$": tools, "^TestValgrindStarts$": tools, "^TestMistakes$": tools,
	"^TestPage$":               tools,
	"^TestOn":                  "it needs no GPU",
	"^TestLittleAddressSpace$": limited,
	"^TestRoom$/^numbers$":     "the files are those of the software device's memory",
	"^TestExit$/^calls_before$": "libcuda ends in an exit handler of its own, before those that were " +
		"there before it; then there is no GPU",
	"^TestEnvironment$/^product_and_form$": "in form RC host and device share their memory, and a GPU has its own",
}

// leaveOut leaves out the tests of onlySoft, and says so, where another driver is tested.
func leaveOut() error {
	if testDriver == "" {
		return nil
	}
	patterns := slices.Sorted(maps.Keys(onlySoft))
	for _, p := range patterns {
		fmt.Fprintf(os.Stderr, "left out %s: %s\n", strings.NewReplacer("^", "", "$", "").Replace(p), onlySoft[p])
	}
	return flag.Set("test.skip", strings.Join(patterns, "|"))
}
