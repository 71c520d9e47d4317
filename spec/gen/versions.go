package main

import (
	"fmt"
	"strings"

	"ropeway/spec/table"
)

// Two versions are in the toolkit: that of the API (ACL_MAJOR_VERSION and so on), and that of the vendor's package
// which has this API, which is what build scripts compare.

// apiVersion is the version of the API.
func apiVersion(t *table.Table) (string, error) {
	var parts []string
	for _, name := range []string{"ACL_MAJOR_VERSION", "ACL_MINOR_VERSION", "ACL_PATCH_VERSION"} {
		for _, d := range t.Types.Defines {
			if d.Name == name && d.Value != nil {
				parts = append(parts, fmt.Sprint(*d.Value))
			}
		}
	}
	if len(parts) != 3 {
		return "", fmt.Errorf("the table does not have the three parts of the API's version")
	}
	return strings.Join(parts, "."), nil
}

// versionHeader returns the writer of a header with the release, in macros that begin with a prefix.
func versionHeader(prefix string) func(*table.Table, string) ([]byte, error) {
	return func(t *table.Table, _ string) ([]byte, error) {
		part := strings.Split(t.Types.Release, ".")
		w := newCWriter(t)
		w.comment("The release of the vendor's runtime package whose API this is. It says nothing about models, " +
			"operators and tools, which are not here.")
		guard := "ROPEWAY_" + prefix + "_VERSION_H"
		w.openGuard(guard)
		w.printf("#define %s_VERSION_STR \"%s\"\n", prefix, t.Types.Release)
		w.printf("#define %s_MAJOR %s\n#define %s_MINOR %s\n#define %s_PATCH %s\n", prefix, part[0], prefix, part[1],
			prefix, part[2])
		w.printf("#define %s_VERSION_NUM ((%s * 10000000) + (%s * 100000) + (%s * 1000))\n\n", prefix, part[0],
			part[1], part[2])
		w.closeGuard(guard)
		return w.b.Bytes(), nil
	}
}

// writeVersionInfo writes the file that build scripts read.
func writeVersionInfo(t *table.Table, _ string) ([]byte, error) {
	return fmt.Appendf(nil, "Version=%s\n", t.Types.Release), nil
}

const pkgConfig = `# Where this file lies says where the rest is: the toolkit may be moved.
prefix=${pcfiledir}/../..
includedir=${prefix}/include
libdir=${prefix}/lib64

Name: ascendcl
Description: AscendCL runtime API, by ropeway; the version is that of the API
Version: %s
Cflags: -I${includedir}
Libs: -L${libdir} -lascendcl
`

func writePkgConfig(t *table.Table, _ string) ([]byte, error) {
	version, err := apiVersion(t)
	return fmt.Appendf(nil, pkgConfig, version), err
}

const cmakeVersion = `# The version is that of the API. A later one of the same first number has all that an earlier one had.
set(PACKAGE_VERSION "%s")
if(NOT PACKAGE_FIND_VERSION_MAJOR STREQUAL "%s" OR PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
    set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
    if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
        set(PACKAGE_VERSION_EXACT TRUE)
    endif()
endif()
`

func writeCMakeVersion(t *table.Table, _ string) ([]byte, error) {
	version, err := apiVersion(t)
	major, _, _ := strings.Cut(version, ".")
	return fmt.Appendf(nil, cmakeVersion, version, major), err
}
