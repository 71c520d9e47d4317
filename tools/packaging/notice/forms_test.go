package main

import (
	"bytes"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"ropeway/internal/testenv"
)

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(name)
	testenv.OK(t, err)
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// TestForms: the forms for issues are what the code host takes: names, and fields with numbers of their own.
func TestForms(t *testing.T) {
	forms, err := filepath.Glob(filepath.Join(root, ".github/ISSUE_TEMPLATE/*.yml"))
	if err != nil || len(forms) < 4 {
		t.Fatal(forms, err)
	}
	for _, name := range forms {
		if filepath.Base(name) == "config.yml" {
			continue
		}
		var form struct {
			Name, Description string
			Labels            []string
			Body              []struct {
				Type, ID   string
				Attributes struct{ Label, Value string }
			}
		}
		readYAML(t, name, &form)
		seen := map[string]bool{}
		if form.Name == "" || form.Description == "" || len(form.Body) == 0 {
			t.Errorf("%s: %+v", name, form)
		}
		for _, b := range form.Body {
			switch b.Type {
			case "markdown":
				if b.Attributes.Value == "" {
					t.Errorf("%s: an empty text", name)
				}
			case "input", "textarea":
				if b.ID == "" || seen[b.ID] || b.Attributes.Label == "" {
					t.Errorf("%s: a field without an id of its own or a label: %+v", name, b)
				}
				seen[b.ID] = true
			default:
				t.Errorf("%s: %q is no field", name, b.Type)
			}
		}
	}
}

// TestCitation: CITATION.cff has what its format asks for, and the version that VERSION names, where there is one. The
// page on CI names the repository that it names; ROPEWAY_UPDATE=1 writes it there.
func TestCitation(t *testing.T) {
	var c struct {
		Format  string `yaml:"cff-version"`
		Message string
		Title   string
		Authors []map[string]string
		Version string
		License string

		Repository string `yaml:"repository-code"`
	}
	readYAML(t, filepath.Join(root, "CITATION.cff"), &c)
	if c.Format != "1.2.0" || c.Message == "" || c.Title == "" || len(c.Authors) == 0 || c.License != "Apache-2.0" {
		t.Errorf("%+v", c)
	}
	repository, action := c.Repository, "OWNER/ropeway"
	if repository == "" {
		repository = "ADDRESS" // of the repository
	} else if at, err := url.Parse(repository); err != nil || at.Scheme != "https" {
		t.Errorf("repository-code: %s", repository)
	} else {
		action = strings.Trim(at.Path, "/")
	}
	page := filepath.Join(root, "docs/howto-ci.md")
	old, err := os.ReadFile(page)
	testenv.OK(t, err)
	text := regexp.MustCompile(`(uses: )\S+(@v\d+\.\d+\.\d+)`).ReplaceAll(old, []byte("${1}"+action+"${2}"))
	text = regexp.MustCompile(`(- repo: )\S+`).ReplaceAll(text, []byte("${1}"+repository))
	if !bytes.Equal(old, text) {
		if os.Getenv("ROPEWAY_UPDATE") == "" {
			t.Errorf("%s names another repository than CITATION.cff; ROPEWAY_UPDATE=1 writes it", page)
		} else if err := os.WriteFile(page, text, 0o644); err != nil {
			t.Error(err)
		}
	}
	text, err = os.ReadFile(filepath.Join(root, "VERSION"))
	if err == nil && strings.TrimSpace(string(text)) != c.Version {
		t.Errorf("CITATION.cff is of %s, VERSION says %s", c.Version, text)
	}
}
