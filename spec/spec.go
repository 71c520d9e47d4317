// Package spec holds the AscendCL API as data: the table every generator reads.
package spec

import "embed"

// Files holds the YAML files of the table. Generators and tests read it, and internal/explain.
//
//go:embed functions.yaml model-ri.yaml kernel.yaml profiling.yaml tdt.yaml types.yaml errors.yaml advice.yaml overloads.yaml older.yaml outside.yaml
var Files embed.FS

// Seeds is the sentences of the documents that the project began with. Tests read it.
//
//go:embed seeds.yaml
var Seeds []byte
