// Package tool knows the tools that tests need, and how to get them.
package tool

import (
	"fmt"
	"os"
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

// Missing says that a tool is missing and what to install.
func Missing(name string) string {
	from := packages[name]
	if from == "" {
		from = name
	}
	return fmt.Sprintf("%s is missing: apt-get install %s", name, from)
}

// CI reports whether the tests run where everything they need must be installed: CI=true is in the environment.
func CI() bool { return os.Getenv("CI") == "true" }
