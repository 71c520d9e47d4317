// Package kernel reads kernel binaries and builds the arguments of launches. It runs only kernels that are functions
// of this process; drivers run the others.
//
// A binary is a list of kernels. A kernel has a name, a number, a type, one function of the binary or two (the halves
// of a mix kernel) and, where its compiler has written them, parameters. Table lists the kernels of a binary;
// Builder, Fill and Gather build argument buffers.
package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
)

// Format is the kind of code in a binary.
type Format uint8

// The known formats.
const (
	Unknown   Format = iota
	Native           // shared object for the CPU of this process
	Object           // not linked: a relocatable file for this CPU
	Foreign          // for another CPU
	NPU              // machine code of an Ascend device
	PTX              // text for a GPU
	Cubin            // machine code of a GPU
	Fatbin           // several GPU binaries
	InProcess        // functions of this process
	numFormats
)

var formatNames = [numFormats]string{
	"no kernel binary", "a shared object for this CPU", "an object file that is not linked", "code for another CPU",
	"NPU machine code",
	"PTX", "a cubin", "a fatbin", "functions of this process",
}

func (f Format) String() string { return formatNames[f] }

// Numbers of machines in an ELF header.
const (
	machineX86   = 62
	machineARM   = 183
	machineCUDA  = 190
	machineNPU   = 4137
	machineOldNP = 244 // of binaries of older compilers
)

// machineHere is the machine number of this process.
func machineHere() uint16 {
	switch runtime.GOARCH {
	case "amd64":
		return machineX86
	case "arm64":
		return machineARM
	}
	return 0
}

// ErrImage is wrapped by the errors for binaries that a device refuses.
var ErrImage = errors.New("the binary cannot be loaded")

// FormatOf returns the format of an image, judging by its first bytes.
func FormatOf(image []byte) Format {
	if len(image) >= 64 && bytes.HasPrefix(image, []byte("\x7fELF")) {
		kind, machine := binary.LittleEndian.Uint16(image[16:]), binary.LittleEndian.Uint16(image[18:])
		switch machine {
		case machineNPU, machineOldNP:
			return NPU
		case machineCUDA:
			return Cubin
		case machineHere():
			const dynamic = 3
			if kind != dynamic {
				return Object
			}
			return Native
		}
		return Foreign
	}
	if len(image) >= 4 && binary.LittleEndian.Uint32(image) == 0xBA55ED50 {
		return Fatbin
	}
	if IsFunctions(image) {
		return InProcess
	}
	if isPTX(image) {
		return PTX
	}
	return Unknown
}

// isPTX reports whether the first line that is neither empty nor a comment begins with .version.
func isPTX(image []byte) bool {
	const look = 4096 // largest size of comments
	text := image[:min(len(image), look)]
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		line = bytes.TrimSpace(line)
		if len(line) > 0 && !bytes.HasPrefix(line, []byte("//")) {
			return bytes.HasPrefix(line, []byte(".version"))
		}
		text = rest
	}
	return false
}

// Stand lists the formats that can stand in for a binary, with the extensions of their files.
var Stand = []struct {
	Extension string
	Format    Format
}{{".so", Native}, {".fatbin", Fatbin}, {".cubin", Cubin}, {".ptx", PTX}}

// Advice returns a text that tells the user what to do about a binary that the driver of that name cannot run. runs
// reports the formats it can run. searched is the folder that has no stand-in for the binary, with the reason; "":
// there is no folder.
func Advice(f Format, name string, runs func(Format) bool, searched string) string {
	kind, files := "a shared object", ".so"
	if runs(PTX) {
		kind, files = "PTX, a cubin or a fatbin", ".ptx, .cubin or .fatbin"
	}
	folder := fmt.Sprintf("put %s with the same kernel names in a folder (%s) and set ROPEWAY_KERNELS to it "+
		"(docs/kernels.md)", kind, files)
	if searched != "" {
		folder = fmt.Sprintf("put %s with the same kernel names (%s, docs/kernels.md) in %s", kind, files, searched)
	}
	cannot := fmt.Sprintf("this is %v, which the %s driver cannot run", f, name)
	switch f {
	case NPU:
		return "this is NPU machine code, which only an NPU runs: " + folder
	case Object:
		return "the object file is not linked: gcc -shared -fPIC makes a shared object"
	case Foreign:
		return "the shared object is for another CPU: compile it for this one"
	case PTX, Cubin, Fatbin:
		return cannot + ": ROPEWAY_DRIVER=cuda can, or " + folder
	case Native, InProcess:
		return cannot + ", since it does not reach device memory: load " + kind + ", as nvcc makes it, or " + folder
	}
	return "these bytes are no kernel binary: a shared object, PTX, a cubin or a fatbin"
}
