package main

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"ropeway/spec/table"
)

// The fake core of capi/shim/fake records what the shim sends; the calls written here send every argument of every
// function with a value of its own and say how it must arrive.

// writeFakeSlots writes what the fake core must know to record a call: how many slots it has and which are structs.
func writeFakeSlots(t *table.Table, _ string) ([]byte, error) {
	var slots, structs bytes.Buffer
	for _, f := range t.Functions {
		fmt.Fprintf(&slots, "\t%d, /* %s */\n", len(f.C.Params), f.Name)
		for i, p := range f.C.Params {
			if !byAddress(t, p.Type) {
				continue
			}
			size, ok := t.SizeOf(p.Type.Base)
			if !ok {
				return nil, fmt.Errorf("%s: %s has no size", f.Name, p.Type)
			}
			fmt.Fprintf(&structs, "\t{ROPEWAY_%s, %d, %d},\n", f.Name, i, size.Size)
		}
	}
	return fmt.Appendf(nil, `#ifndef ROPEWAY_FAKE_SLOTS_H
#define ROPEWAY_FAKE_SLOTS_H

#include "../entry.h"

/* How many slots each function has. */
static const unsigned char fake_slots[ROPEWAY_FUNCTIONS] = {
%s};

/* Slots that hold the address of a struct which the program passed by value. */
static const struct {
	uint32_t function, slot, size;
} fake_structs[] = {
%s};

#endif
`, slots.Bytes(), structs.Bytes()), nil
}

// byAddress reports whether a parameter is a struct passed by value: its slot holds the address of a copy.
func byAddress(t *table.Table, ty table.Type) bool {
	k, _ := t.KindOf(ty.Base)
	return !isPointer(t, ty) && (k == table.StructType || k == table.UnionType)
}

// writeFakeCalls writes one call of every function.
func writeFakeCalls(t *table.Table, _ string) ([]byte, error) {
	var b, list bytes.Buffer
	b.WriteString("#include \"calls.h\"\n\n#include <stddef.h>\n\n")
	for _, h := range functionHeaders(t) {
		fmt.Fprintf(&b, "#include \"%s\"\n", table.Included(h))
	}
	b.WriteString("\n#pragma GCC diagnostic ignored \"-Wdeprecated-declarations\"\n")
	for n, f := range t.Functions {
		if err := fakeCall(&b, t, f, n); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		code := 0
		if f.ReturnsCode() {
			code = 1
		}
		fmt.Fprintf(&list, "\t{send_%s, %d},\n", f.Name, code)
	}
	fmt.Fprintf(&b, "\nconst struct fake_send fake_calls[ROPEWAY_FUNCTIONS] = {\n%s};\n", list.Bytes())
	return b.Bytes(), nil
}

func fakeCall(b *bytes.Buffer, t *table.Table, f *table.Function, number int) error {
	var structs, args, slots []string
	for i, p := range f.C.Params {
		if f.C.Variadic && i == len(f.C.Params)-1 { // the text is made by the shim
			args, slots = append(args, `"%s %d", "text", 7`), append(slots, "FAKE_TEXT")
			break
		}
		if strings.HasPrefix(f.Name, injection) && i == 0 { // the shim reads the name
			args, slots = append(args, `"text 7"`), append(slots, "FAKE_TEXT")
			continue
		}
		if byAddress(t, p.Type) {
			name := fmt.Sprintf("s%d", i)
			structs = append(structs, fmt.Sprintf("\t%s %s;\n\tfake_fill(&%s, sizeof %s, %d);\n", p.Type,
				name, name, name, i))
			args, slots = append(args, name), append(slots, "FAKE_STRUCT")
			continue
		}
		arg, slot, err := fakeArgument(t, p.Type, uint64(number*16+i+1))
		if err != nil {
			return err
		}
		args, slots = append(args, arg), append(slots, fmt.Sprintf("%#x", slot))
	}
	want := "NULL"
	fmt.Fprintf(b, "\nstatic void send_%s(void)\n{\n%s", f.Name, strings.Join(structs, ""))
	if len(slots) > 0 {
		fmt.Fprintf(b, "\tstatic const uint64_t want[] = {%s};\n", strings.Join(slots, ", "))
		want = "want"
	}
	call := fmt.Sprintf("%s(%s)", f.Name, strings.Join(args, ", "))
	if k, _ := t.KindOf(f.C.Return.Base); k == table.VoidType && f.C.Return.Pointers == 0 {
		fmt.Fprintf(b, "\t%s;\n\tfake_arrived(ROPEWAY_%s, %s, %d, NULL, 0);\n}\n", call, f.Name, want, len(slots))
		return nil
	}
	fmt.Fprintf(b, "\t%s got = %s;\n\tfake_arrived(ROPEWAY_%s, %s, %d, &got, sizeof got);\n}\n", f.C.Return, call,
		f.Name, want, len(slots))
	return nil
}

// fakeArgument spells an argument that no other call uses, and the slot it must become. Values are as large as their
// type allows: a slot that loses bits, or the sign, shows.
func fakeArgument(t *table.Table, ty table.Type, unique uint64) (arg string, slot uint64, err error) {
	if isPointer(t, ty) {
		slot = 0xfedc000000000000 | unique<<4
		return fmt.Sprintf("(%s)(uintptr_t)%#x", ty, slot), slot, nil
	}
	size, _ := t.SizeOf(ty.Base)
	bits := uint(size.Size * 8)
	switch k, _ := t.KindOf(ty.Base); {
	case ty.Base == "float":
		return fmt.Sprintf("%d.25f", unique), uint64(math.Float32bits(float32(unique) + 0.25)), nil
	case k == table.EnumType:
		slot = 1<<30 | unique
		return fmt.Sprintf("(%s)%#x", ty, slot), slot, nil
	case k == table.Scalar && signed(t, ty.Base):
		n := int64(-1)<<(bits-1) + int64(unique&(1<<(bits-2)-1))
		return fmt.Sprintf("(%s)%#x", ty, uint64(n)), uint64(n), nil
	case k == table.Scalar:
		slot = 1<<(bits-1) | unique&(1<<(bits-2)-1)
		return fmt.Sprintf("(%s)%#x", ty, slot), slot, nil
	}
	return "", 0, fmt.Errorf("no argument for %s", ty)
}

// signed reports whether a C integer type has a sign.
func signed(t *table.Table, name string) bool {
	for _, n := range t.Types.Typedefs {
		if n.Name == name {
			return signed(t, n.C)
		}
	}
	return !strings.HasPrefix(name, "u") && name != "size_t" && name != "bool"
}
