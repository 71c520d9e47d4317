package kernel

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"ropeway/internal/abi"
)

func overflowAt(addr uintptr) func() (uintptr, *Refusal) {
	return func() (uintptr, *Refusal) { return addr, nil }
}

func codeOf(r *Refusal) abi.Code {
	if r == nil {
		return 0
	}
	return r.Code
}

// TestBuilderLayout: synchronisation address, parameters at multiples of 8, overflow address, data of placeholders.
func TestBuilderLayout(t *testing.T) {
	var b Builder
	b.Start(&Kernel{Type: Mix, Sync: true}, make([]byte, 256), true, 128)
	if i, err := b.Append([]byte{1, 2, 3}); i != 0 || err != nil {
		t.Fatal(i, err)
	}
	p, _ := b.AppendPlaceholder()
	b.Append([]byte{9}) //nolint:errcheck // fits
	data, err := b.Take(p, 5, overflowAt(0x1111))
	if err != nil {
		t.Fatal(err)
	}
	copy(data, "hello")
	if err := b.Finalize(overflowAt(0x2222), overflowAt(0x3333)); err != nil {
		t.Fatal(err)
	}
	args := slices.Clone(b.Bytes())
	Fill(args, 0x10000, b.Placeholders(nil))
	le := binary.LittleEndian
	if len(args) != 45 || le.Uint64(args) != 0x3333 || args[8] != 1 || le.Uint64(args[16:]) != 0x10000+40 ||
		args[24] != 9 ||
		le.Uint64(args[32:]) != 0x1111 || !bytes.Equal(args[40:], []byte("hello")) {
		t.Errorf("arguments % x", args)
	}
}

// TestBuilderStates: what may follow what.
func TestBuilderStates(t *testing.T) {
	var b Builder
	start := func() { b.Start(&Kernel{Type: Cube}, make([]byte, 64), true, 3) }
	none := overflowAt(0)

	start()
	i, _ := b.Append([]byte{1})
	if b.Ready() {
		t.Error("an open builder is ready")
	}
	if err := b.Finalize(none, none); err != nil || !b.Ready() {
		t.Errorf("finalize: %v", err)
	}
	if _, err := b.Append([]byte{1}); codeOf(err) != abi.ErrRTFeatureNotSupport {
		t.Errorf("append after finalize: %v", err)
	}
	if _, err := b.AppendPlaceholder(); codeOf(err) != abi.ErrRTFeatureNotSupport {
		t.Errorf("placeholder after finalize: %v", err)
	}
	if err := b.Update(i, []byte{2}); err != nil || b.Ready() {
		t.Errorf("update makes it stale: %v, %v", err, b.Ready())
	}
	if err := b.Update(i, []byte{2, 3}); codeOf(err) != abi.ErrRTParamInvalid {
		t.Errorf("update of another size: %v", err)
	}
	if err := b.Finalize(none, none); err != nil || !b.Ready() || len(b.Bytes()) != 16 {
		t.Errorf("finalized again: %v, %d bytes", err, len(b.Bytes()))
	}

	start()
	i, _ = b.Append([]byte{1})
	p, _ := b.AppendPlaceholder()
	if _, err := b.Take(i, 8, none); codeOf(err) != abi.ErrRTParamInvalid {
		t.Errorf("data of a parameter: %v", err)
	}
	if _, err := b.Take(p, 8, none); err != nil {
		t.Error(err)
	}
	if _, err := b.Append([]byte{1}); codeOf(err) != abi.ErrRTFeatureNotSupport {
		t.Errorf("append after data: %v", err)
	}
	if err := b.Update(p, make([]byte, 8)); codeOf(err) != abi.ErrRTParamInvalid {
		t.Errorf("update of a placeholder: %v", err)
	}
	b.Finalize(none, none) //nolint:errcheck // seen below
	if _, err := b.Take(p, 1, none); codeOf(err) != abi.ErrRTFeatureNotSupport {
		t.Errorf("data after finalize: %v", err)
	}
}

// TestBuilderLimits: number of parameters, and bytes with the overflow address.
func TestBuilderLimits(t *testing.T) {
	var b Builder
	none := overflowAt(0)
	b.Start(&Kernel{Type: Cube}, make([]byte, 64), true, 2)
	b.Append([]byte{1}) //nolint:errcheck // fits
	b.Append([]byte{1}) //nolint:errcheck // fits
	if _, err := b.Append([]byte{1}); codeOf(err) != abi.ErrRTParamInvalid {
		t.Errorf("one parameter too many: %v", err)
	}
	b.Start(&Kernel{Type: Cube}, make([]byte, 64), true, 128)
	if _, err := b.Append(make([]byte, 64)); err != nil {
		t.Error(err)
	}
	if err := b.Finalize(none, none); codeOf(err) != abi.ErrRTParamInvalid {
		t.Errorf("no room for the overflow address: %v", err)
	}
	b.Start(&Kernel{Type: AICPU}, make([]byte, 16), true, 128)
	b.Append([]byte{1, 2, 3}) //nolint:errcheck // fits
	b.Append([]byte{4})       //nolint:errcheck // fits
	if err := b.Finalize(none, none); err != nil || !bytes.Equal(b.Bytes(), []byte{1, 2, 3, 4}) {
		t.Errorf("an AI CPU function: %v, % x", err, b.Bytes())
	}
	if UserBytes(&Kernel{Takes: 128}, 10) != 1098 || HandleBytes(&Kernel{Takes: 128}) != 6240 ||
		UserBytes(&Kernel{Type: AICPU}, 10) != 10 {
		t.Error("sizes of user memory")
	}
}

// TestSIMTHead: the sizes stand before the arguments, last dimension first.
func TestSIMTHead(t *testing.T) {
	b := make([]byte, SIMTHead)
	PutSIMTHead(b, [3]uint32{1, 2, 3}, [3]uint32{4, 5, 6})
	want := []uint32{0, 0, 6, 5, 4, 3, 2, 1}
	for i, w := range want {
		if got := binary.LittleEndian.Uint32(b[4*i:]); got != w {
			t.Errorf("word %d is %d, want %d", i, got, w)
		}
	}
}

// TestSide: what the file beside a binary says; broken ones say nothing.
func TestSide(t *testing.T) {
	s, err := ReadSide([]byte(`{"intercoreSync": 1, "magic": "RT_DEV_BINARY_MAGIC_ELF_AIVEC", "other": [1]}`))
	if err != nil || !s.Sync || s.MagicNumber() != MagicAIVec {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := ReadSide([]byte(`{broken`)); err != nil || s != (Side{}) {
		t.Errorf("%+v, %v", s, err)
	}
	for _, text := range []string{`{"debugOptions": 3}`, `{"debugOptions": "a,printf"}`} {
		if _, err := ReadSide([]byte(text)); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
	ops, err := ReadCPUOps([]byte(`{"Add": {"opInfo": {"functionName": "RunAdd", "kernelSo": "libadd.so", "opKernelLib": "CUSTAICPUKernel"}}, "x": 3, "y": {}}`))
	if err != nil || len(ops) != 1 || ops["Add"].Function != "RunAdd" {
		t.Errorf("%v, %v", ops, err)
	}
	if SideName("/a/b.c/x.o", ".json") != "/a/b.c/x.json" {
		t.Error(SideName("/a/b.c/x.o", ".json"))
	}
	if DefaultType(MagicELF, true) != Mix || DefaultType(0, true) != Cube || DefaultType(0, false) != AICore ||
		DefaultType(MagicELF, false) != AICore {
		t.Error("default types")
	}
}
