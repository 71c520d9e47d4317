// Package testenv says what the machine that runs the tests has, how long they may take, and which seed they use.
package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// packages are those of Debian that hold a tool of another name.
var packages = map[string]string{
	"aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
	"addr2line":             "binutils",
	"ctest":                 "cmake",
	"dpkg-deb":              "dpkg",
	"env":                   "coreutils",
	"gcc":                   "gcc libc6-dev",
	"groff":                 "groff-base",
	"ip":                    "iproute2",
	"node":                  "nodejs",
	"objcopy":               "binutils",
	"promtool":              "prometheus",
	"qemu-aarch64":          "qemu-user",
	"setarch":               "util-linux",
	"sh":                    "dash",
	"ucx_info":              "ucx-utils libucx0 libucx-dev",
}

// missing says that a tool is missing and what to install.
func missing(name string) string {
	from := packages[name]
	if from == "" {
		from = name
	}
	return fmt.Sprintf("%s is missing: apt-get install %s", name, from)
}

// CI reports whether the tests run where everything they need must be installed: CI=true is in the environment.
func CI() bool { return os.Getenv("CI") == "true" }

// Need skips the test if a tool is not in PATH, and fails it in CI: a test that never runs there proves nothing.
func Need(t testing.TB, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err == nil {
		return
	}
	Missing(t, missing(name))
}

// NeedFile is Need for a file, of a package of Debian.
func NeedFile(t testing.TB, name, debian string) {
	t.Helper()
	if _, err := os.Stat(name); err != nil {
		Missing(t, name+" is missing: apt-get install "+debian)
	}
}

// NeedGoogleTest is Need for GoogleTest.
func NeedGoogleTest(t testing.TB) {
	t.Helper()
	NeedFile(t, "/usr/include/gtest/gtest.h", "libgtest-dev")
}

// Missing is Need for what is no program: why says "... is missing" and how to get it.
func Missing(t testing.TB, why string) {
	t.Helper()
	if CI() {
		t.Fatalf("%s; with CI=true it has to be there: add its package to .ci/run", why)
	}
	t.Skip(why)
}

// Long skips the test in short runs: "make test" is one, "make test-all" is not. why says what takes long.
func Long(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs with make test-all: " + why)
	}
}

// NeedProcess skips the test where processes cannot be started like that, as by another user than root, and by root in
// most containers.
func NeedProcess(t testing.TB, attr *syscall.SysProcAttr) {
	t.Helper()
	cmd := exec.Command("sh", "-c", ":")
	cmd.SysProcAttr = attr
	if err := cmd.Run(); err != nil {
		t.Skipf("this user cannot start such a process here: %v", err)
	}
}

// Soak is how long a soak test runs: SOAK in the environment, as "make soak" sets it. Without it the test is skipped.
func Soak(t testing.TB) time.Duration {
	t.Helper()
	text := os.Getenv("SOAK")
	if text == "" {
		t.Skip("runs with make soak")
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("SOAK=%q is no time like 10m", text)
	}
	return d
}

// Settled returns what to put before the command of a program under ThreadSanitizer, which limits where memory may be:
// if the kernel's address randomisation exceeds that, the program runs without it.
func Settled(t testing.TB) []string {
	t.Helper()
	bits, err := os.ReadFile("/proc/sys/vm/mmap_rnd_bits")
	if n, e := strconv.Atoi(strings.TrimSpace(string(bits))); err != nil || e != nil || n <= 28 {
		return nil
	}
	Need(t, "setarch")
	return []string{"setarch", "-R"}
}

// OK ends the test if err is not nil.
func OK(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}
