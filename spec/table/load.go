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

// functionFiles hold functions, in the order of their numbers.
var functionFiles = []string{"functions.yaml", "model-ri.yaml", "kernel.yaml", "profiling.yaml", "tdt.yaml",
	"older.yaml"}

// Parse reads the files of package spec from fsys and checks them. The error names every mistake found.
func Parse(fsys fs.FS) (*Table, error) {
	var forms struct {
		Overloads []Overload `yaml:"overloads"`
	}
	t := &Table{}
	for _, name := range functionFiles {
		var file struct {
			Functions []*Function `yaml:"functions"`
		}
		if err := decode(fsys, name, &file); err != nil {
			return nil, err
		}
		t.Functions = append(t.Functions, file.Functions...)
	}
	for _, f := range []struct {
		name string
		into any
	}{
		{"types.yaml", &t.Types},
		{"errors.yaml", &t.Errors},
		{"advice.yaml", &t.Advice},
		{"overloads.yaml", &forms},
		{"outside.yaml", &t.Outside},
	} {
		if err := decode(fsys, f.name, f.into); err != nil {
			return nil, err
		}
	}
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

// decode reads one YAML file. A field that into does not have is a mistake.
func decode(fsys fs.FS, name string, into any) error {
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
