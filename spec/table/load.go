package table

import (
	"bytes"
	"fmt"
	"io/fs"

	"go.yaml.in/yaml/v3"

	"ropeway/spec"
)

// Load reads and checks the table embedded in package spec.
func Load() (*Table, error) { return Parse(spec.Files) }

// Parse reads the files of package spec from fsys and checks them. The error names every mistake found.
func Parse(fsys fs.FS) (*Table, error) {
	var core, rest struct {
		Functions []*Function `yaml:"functions"`
	}
	var forms struct {
		Overloads []Overload `yaml:"overloads"`
	}
	t := &Table{}
	for _, f := range []struct {
		name string
		into any
	}{
		{"functions.yaml", &core},
		{"remaining.yaml", &rest},
		{"types.yaml", &t.Types},
		{"errors.yaml", &t.Errors},
		{"advice.yaml", &t.Advice},
		{"overloads.yaml", &forms},
		{"older.yaml", &t.Older},
	} {
		data, err := fs.ReadFile(fsys, f.name)
		if err != nil {
			return nil, err
		}
		dec := yaml.NewDecoder(bytes.NewReader(data))
		dec.KnownFields(true)
		if err := dec.Decode(f.into); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	for _, f := range rest.Functions {
		if f.Status == "" {
			f.Status = Later
		}
	}
	t.Functions = append(core.Functions, rest.Functions...)
	for _, f := range t.Functions {
		if f.Status == "" {
			f.Status = Core
		}
	}
	t.Overloads = forms.Overloads
	if err := t.check(); err != nil {
		return nil, err
	}
	return t, nil
}
