package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/repo"
	"ropeway/internal/testenv"
	"ropeway/spec/table"
)

func TestNames(t *testing.T) {
	tab, err := table.Load()
	testenv.OK(t, err)
	n, err := newNames(tab)
	testenv.OK(t, err)
	for c, want := range map[string]string{
		"ACL_SUCCESS":                              "Success",
		"ACL_ERROR_INVALID_PARAM":                  "ErrInvalidParam",
		"ACL_ERROR_RT_PARAM_INVALID":               "ErrRTParamInvalid",
		"ACL_ERROR_RT_TS_ERROR":                    "ErrRTTSError",
		"ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED": "ErrHostMemoryAlreadyRegistered",
		"ACL_MEMCPY_HOST_TO_DEVICE":                "MemcpyHostToDevice",
		"ACL_MEM_MALLOC_HUGE_FIRST_P2P":            "MemMallocHugeFirstP2P",
		"ACL_ERROR":                                "LogLevelError",
		"ACL_DEVICE":                               "RunModeDevice",
		"ACL_FLOAT8_E5M2":                          "DataTypeFloat8E5M2",
		"ACL_FORMAT_NCHW":                          "FormatNchw",
		"ACL_MEM_LOCATION_TYPE_HOST":               "MemLocationTypeHost",
		"ACL_MEM_LOCATIONTYPE_HOST":                "MemManagedLocationTypeHost",
		"ACL_STREAM_FAST_LAUNCH":                   "StreamFastLaunch",
		"ACL_EVENT_SYNC":                           "EventSync",
	} {
		if got := n.consts[c]; got != want {
			t.Errorf("%s is %q, want %q", c, got, want)
		}
	}
	for c, want := range map[string]string{
		"aclrtMemcpyKind": "MemcpyKind", "aclMemType": "MemType", "aclrtMemType": "RTMemType",
		"aclmdlRICaptureMode": "MdlRICaptureMode", "dim3": "Dim3",
	} {
		if got := n.types[c]; got != want {
			t.Errorf("%s is %q, want %q", c, got, want)
		}
	}
}

// TestGenerate proves that every Go output is valid, formatted and marked.
func TestGenerate(t *testing.T) {
	tab, err := table.Load()
	testenv.OK(t, err)
	root, err := repo.Root()
	testenv.OK(t, err)
	for _, o := range outputs {
		data, err := generate(o, tab, root)
		if err != nil {
			t.Errorf("%s: %v", o.path, err)
		}
		if strings.HasSuffix(o.path, ".go") && !strings.HasPrefix(string(data), header) {
			t.Errorf("%s: no generated-code header", o.path)
		}
	}
}

// TestNoOrphans: every Go file that says it is generated from the table still is.
func TestNoOrphans(t *testing.T) {
	root, err := repo.Root()
	testenv.OK(t, err)
	found := 0
	err = filepath.WalkDir(filepath.Join(root, "internal"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(text), header) {
			return err
		}
		found++
		name, err := filepath.Rel(root, path)
		if err == nil && !slices.ContainsFunc(outputs, func(o output) bool { return o.path == name }) {
			t.Errorf("%s: nothing writes it any more", name)
		}
		return err
	})
	if err != nil || found < len(corePackages) {
		t.Errorf("%d generated files, %v", found, err)
	}
}
