// Package spec holds the AscendCL API as data: the table every generator reads.
package spec

import "embed"

// Files holds the YAML files of the table. Only generators and tests read it.
//
//go:embed functions.yaml remaining.yaml types.yaml errors.yaml
var Files embed.FS
