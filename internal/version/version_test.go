package version

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

const root = "../.."

// TestOneVersion: the file VERSION says it, and every file of the repository that names the version of ropeway agrees.
// The toolkit, the wheel and the packages are made from these; TestVersions of capi/test asks the tools.
func TestOneVersion(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "VERSION"))
	testenv.OK(t, err)
	if string(text) != Ropeway+"\n" {
		t.Fatalf("VERSION is %q, generated was %s: run go run ./spec/gen and make man", text, Ropeway)
	}
	for file, form := range map[string]string{
		"tools/packaging/ropeway.pc":                 `(?m)^Version: (.*)$`,
		"tools/packaging/AscendCLRopeway.cmake":      `AscendCL_ROPEWAY_VERSION "(.*)"`,
		"capi/include/ropeway/version.h":             `ROPEWAY_VERSION "(.*)"`,
		"python/acl/_version.py":                     `__version__ = "(.*)"`,
		"tools/packaging/man/man1/ropeway.1":         `(?m)^\.TH .* "ropeway (\S+)" "ropeway"$`,
		"tools/packaging/man/man1/ropeway-version.1": `(?m)^\.TH .* "ropeway (\S+)" "ropeway"$`,
		"docs/cli.md":                   `(?m)^Of ropeway (\d+\.\d+\.\d+)\. `,
		"tools/packaging/ci/gitlab.yml": `ROPEWAY_VERSION: "(.*)"`,
		"docs/compatibility.md":         `(?m)^This is version ([0-9.]+)\. `,
		"CITATION.cff":                  `(?m)^version: "?([^"\n]*)"?$`,
	} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if os.IsNotExist(err) && file == "CITATION.cff" {
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		m := regexp.MustCompile(form).FindSubmatch(text)
		if m == nil {
			t.Errorf("%s names no version", file)
		} else if string(m[1]) != Ropeway {
			t.Errorf("%s says %s, VERSION says %s", file, m[1], Ropeway)
		}
	}
	named := regexp.MustCompile(`(?:ropeway-|ropeway@v|rev: v)(\d+\.\d+\.\d+)`)
	for _, page := range []string{"docs/howto-install.md", "docs/howto-ci.md"} {
		text, err := os.ReadFile(filepath.Join(root, page))
		found := named.FindAllSubmatch(text, -1)
		if err != nil || len(found) < 3 {
			t.Errorf("%s names %d releases: %v", page, len(found), err)
		}
		for _, m := range found {
			if string(m[1]) != Ropeway {
				t.Errorf("%s: %s, VERSION says %s", page, m[0], Ropeway)
			}
		}
	}
	project, err := os.ReadFile(filepath.Join(root, "python/pyproject.toml"))
	if err != nil || !strings.Contains(string(project), `dynamic = ["version"]`) {
		t.Errorf("python/pyproject.toml has a version of its own: %v", err)
	}
	changes, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	testenv.OK(t, err)
	top := regexp.MustCompile(`(?m)^## (.*)$`).FindSubmatch(changes)
	if top == nil || string(top[1]) != "Unreleased" && !strings.HasPrefix(string(top[1]), Ropeway) {
		t.Errorf("CHANGELOG.md begins with %q, which is neither Unreleased nor %s", top, Ropeway)
	}
}
