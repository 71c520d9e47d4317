package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ropeway/spec/table"
)

const codesHead = `package abi

import (
	"cmp"
	"slices"
	"strings"
	"strconv"
	"strings"
)

// Code is an ACL return code. It is an error, so errors.Is can target it;
// Success is a Code too, and callers turn it into a nil error.
type Code int32

// Error returns the number, the C name and the meaning.
func (c Code) Error() string {
	s := "ACL error " + strconv.Itoa(int(c))
	if i, ok := c.find(); ok {
		s += " (" + codes[i].name + "): " + strings.TrimSuffix(codes[i].meaning, ".")
	}
	return s
}

// Name returns the C name, or "" when the number is no ACL code.
func (c Code) Name() string {
	if i, ok := c.find(); ok {
		return codes[i].name
	}
	return ""
}

// Meaning returns what the code says, in a sentence, or "" when the number is
// no ACL code.
func (c Code) Meaning() string {
	if i, ok := c.find(); ok {
		return codes[i].meaning
	}
	return ""
}

func (c Code) find() (int, bool) {
	return slices.BinarySearchFunc(codes[:], c, func(e codeText, c Code) int { return cmp.Compare(e.code, c) })
}

// CodeByName returns the code with that C name, aliases included.
func CodeByName(name string) (Code, bool) {
	switch name {
%s	}
	for i := range codes {
		if codes[i].name == name {
			return codes[i].code, true
		}
	}
	return 0, false
}

`

// canonical is the name of a number that has several.
const canonical = "ACL_SUCCESS"

func writeCodes(t *table.Table, _ string) ([]byte, error) {
	n, err := newNames(t)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	byNumber := map[int32]table.Code{}
	for _, c := range t.Codes() {
		if _, dup := byNumber[c.Number]; !dup || c.Name == canonical {
			byNumber[c.Number] = c
		}
	}
	var aliases bytes.Buffer
	for _, c := range t.Codes() {
		if byNumber[c.Number].Name != c.Name {
			fmt.Fprintf(&aliases, "\tcase %q:\n\t\treturn %s, true\n", c.Name, n.consts[c.Name])
		}
	}
	fmt.Fprintf(&b, codesHead, aliases.String())
	for _, g := range t.Errors.Groups {
		fmt.Fprintf(&b, "// %s.\nconst (\n", g.Title)
		for _, c := range g.Codes {
			fmt.Fprintf(&b, "\t%s Code = %d // %s\n", n.consts[c.Name], c.Number, c.Meaning)
		}
		b.WriteString(")\n\n")
	}
	b.WriteString("type codeText struct {\n\tcode Code\n\tname, meaning string\n}\n\n")
	b.WriteString("// codes is sorted by number.\nvar codes = [...]codeText{\n")
	sorted := make([]table.Code, 0, len(byNumber))
	for _, c := range byNumber {
		sorted = append(sorted, c)
	}
	slices.SortFunc(sorted, func(a, b table.Code) int { return cmp.Compare(a.Number, b.Number) })
	for _, c := range sorted {
		fmt.Fprintf(&b, "\t{%s, %q, %q},\n", n.consts[c.Name], c.Name, c.Meaning)
	}
	b.WriteString("}\n")
	return b.Bytes(), nil
}

// alsoReturned are codes that built functions return although no rule of theirs has them: tasks fail with them when
// they run, or a driver does.
var alsoReturned = []string{
	"ACL_ERROR_RT_MEMORY_ALLOCATION", "ACL_ERROR_RT_SYS_DMA", "ACL_ERROR_RT_TASK_TIMEOUT",
	"ACL_ERROR_RT_LOST_HEARTBEAT", "ACL_ERROR_RT_DRV_INTERNAL_ERROR",
	"ACL_ERROR_RT_STREAM_MODEL", // a stream of a model is not the program's to destroy
	"ACL_ERROR_RT_IPC_ERROR",    // the exporter does not reply
	"ACL_ERROR_RT_AICORE_TIMEOUT", "ACL_ERROR_RT_AICORE_EXCEPTION", "ACL_ERROR_RT_AICORE_TRAP_EXCEPTION",
	"ACL_ERROR_RT_VECTOR_CORE_TIMEOUT", "ACL_ERROR_RT_VECTOR_CORE_EXCEPTION",
	"ACL_ERROR_RT_VECTOR_CORE_TRAP_EXCEPTION", "ACL_ERROR_RT_AICPU_TIMEOUT", "ACL_ERROR_RT_AICPU_EXCEPTION",
	"ACL_ERROR_RT_DEVICE_MEM_ERROR",
}

// writePublicCodes gives the Go API the codes that can be returned: those of the rules of built functions.
func writePublicCodes(t *table.Table, _ string) ([]byte, error) {
	n, err := newNames(t)
	if err != nil {
		return nil, err
	}
	returned := map[int32]bool{}
	for _, f := range t.Functions {
		for _, r := range f.Rules {
			if f.Status == table.Core && r.Code != nil && r.Applies() {
				returned[*r.Code] = true
			}
		}
	}
	for _, name := range alsoReturned {
		if n.consts[name] == "" {
			return nil, fmt.Errorf("there is no code %s", name)
		}
	}
	var b bytes.Buffer
	b.WriteString("package ropeway\n\n")
	for _, g := range t.Errors.Groups {
		if g.Group == "success" {
			continue
		}
		var list bytes.Buffer
		for _, c := range g.Codes {
			if returned[c.Number] || slices.Contains(alsoReturned, c.Name) {
				fmt.Fprintf(&list, "\t%s Code = %d // %s\n", n.consts[c.Name], c.Number, c.Meaning)
			}
		}
		if list.Len() > 0 {
			fmt.Fprintf(&b, "// %s\nconst (\n%s)\n\n", codesTitle(g.Title), &list)
		}
	}
	return b.Bytes(), nil
}

// codesTitle makes a sentence of the title of a group.
func codesTitle(title string) string { return strings.TrimSuffix(title, ".") + "." }
