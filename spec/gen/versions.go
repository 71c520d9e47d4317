package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"ropeway/spec/table"
)

// Three versions are in the toolkit: that of the API (ACL_MAJOR_VERSION and so on), that of the vendor's package which
// has this API, which is what build scripts compare, and that of ropeway, which stands in the file VERSION alone.

var versionForm = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)\n$`)

// ropewayVersion is what VERSION says.
func ropewayVersion(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "VERSION"))
	if err != nil {
		return "", err
	}
	if !versionForm.Match(text) {
		return "", fmt.Errorf("VERSION is not three numbers and a newline, such as 1.2.3: %q", text)
	}
	return strings.TrimSpace(string(text)), nil
}

// filled returns the writer of a text whose %s are the version of ropeway.
func filled(text string) func(*table.Table, string) ([]byte, error) {
	return func(_ *table.Table, root string) ([]byte, error) {
		version, err := ropewayVersion(root)
		return []byte(strings.ReplaceAll(text, "%s", version)), err
	}
}

const cVersion = `#ifndef ROPEWAY_VERSION_H
#define ROPEWAY_VERSION_H

/* The version of ropeway. That of the API is in acl/acl_rt.h: ACL_MAJOR_VERSION and so on. */
#define ROPEWAY_VERSION "%s"

#endif /* ROPEWAY_VERSION_H */
`

const cmakeRopeway = `# The version of ropeway; AscendCL_VERSION is that of the API.
set(AscendCL_ROPEWAY_VERSION "%s")
`

const ropewayPkgConfig = `Name: ropeway
Description: AscendCL runtime without an NPU; the module ascendcl has the flags, and the version of the API
Version: %s
Requires: ascendcl
`

// writeGoVersion writes both versions for the commands.
func writeGoVersion(t *table.Table, root string) ([]byte, error) {
	ropeway, err := ropewayVersion(root)
	if err != nil {
		return nil, err
	}
	api, err := apiVersion(t)
	return fmt.Appendf(nil, `// Package version has the versions of ropeway and of the API.
package version

const (
	Ropeway = %q // from the file VERSION
	API     = %q // of the AscendCL runtime, as aclrtGetVersion returns it
)
`, ropeway, api), err
}

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
