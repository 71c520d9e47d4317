package kernel

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
)

// Side is the content of a binary's side file, which has the same name with extension .json.
type Side struct {
	Sync  bool   // all kernels take the synchronisation address
	Magic string // core type of kernels that do not specify one; "": not specified
}

// SideName returns the name of the side file of a binary, which has ext, such as ".json", as its extension.
func SideName(path, ext string) string {
	return strings.TrimSuffix(path, filepath.Ext(path)) + ext
}

// ReadSide reads such a file. A text that is not a JSON object gives an empty Side; it returns an error if the file
// requests the older way of printing.
func ReadSide(text []byte) (s Side, err error) {
	var all map[string]json.RawMessage
	if json.Unmarshal(text, &all) != nil {
		return Side{}, nil
	}
	if raw, ok := all["debugOptions"]; ok {
		var options string
		if json.Unmarshal(raw, &options) != nil || strings.Contains(options, "printf") {
			return Side{}, fmt.Errorf("debugOptions of its side file ask for printf, or are no text")
		}
	}
	var sync int
	if json.Unmarshal(all["intercoreSync"], &sync) == nil {
		s.Sync = sync == 1
	}
	var magic string
	if json.Unmarshal(all["magic"], &magic) == nil {
		s.Magic = magic
	}
	return s, nil
}

// Numbers of a magic, as options give them.
const (
	MagicELF    = 0x43554245
	MagicAICube = 0x41494343
	MagicAIVec  = 0x41415246
)

var magicNames = map[string]uint32{
	"RT_DEV_BINARY_MAGIC_ELF": MagicELF, "RT_DEV_BINARY_MAGIC_ELF_AICUBE": MagicAICube,
	"RT_DEV_BINARY_MAGIC_ELF_AIVEC": MagicAIVec,
	"FFTS_BINARY_MAGIC_ELF_MIX_AIC": MagicAIVec, "FFTS_BINARY_MAGIC_ELF_MIX_AIV": MagicAIVec,
}

// MagicNumber returns the number of the magic in a side file; 0 if it is unknown.
func (s Side) MagicNumber() uint32 { return magicNames[s.Magic] }

// DefaultType returns the type of kernels that do not specify one. pairs means that the product has cube and vector
// cores.
func DefaultType(magic uint32, pairs bool) Type {
	switch {
	case magic == MagicELF && pairs:
		return Mix
	case magic == MagicELF:
		return AICore
	case magic == MagicAICube:
		return Cube
	case magic == MagicAIVec:
		return Vector
	case pairs:
		return Cube
	}
	return AICore
}

// CPUOp is a kernel of an AI CPU binary.
type CPUOp struct {
	Function string `json:"functionName"`
	So       string `json:"kernelSo"`
	Lib      string `json:"opKernelLib"`
}

// CPUKernel returns a kernel for the AI CPU.
func CPUKernel(name string, op CPUOp) *Kernel {
	return &Kernel{Name: name, Type: AICPU, Code: [2]Code{{Symbol: op.Function}}, Takes: MostParams(), So: op.So,
		Lib: op.Lib}
}

// CPUTable returns the table of an AI CPU binary of the given size.
func CPUTable(ops map[string]CPUOp, bytes uint64) *Table {
	t := &Table{Format: Native, Loaded: bytes, byName: map[string]*Kernel{}, byNumber: map[uint64]*Kernel{},
		vars: map[string]Variable{}}
	for name, op := range ops {
		t.byName[name] = CPUKernel(name, op)
	}
	return t
}

// ReadCPUOps reads the file that lists the kernels of an AI CPU binary, by name. Members that have no opInfo are
// skipped.
func ReadCPUOps(text []byte) (map[string]CPUOp, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	ops := map[string]CPUOp{}
	for name, raw := range all {
		var op struct {
			Info *CPUOp `json:"opInfo"`
		}
		if json.Unmarshal(raw, &op) == nil && op.Info != nil {
			ops[name] = *op.Info
		}
	}
	return ops, nil
}
