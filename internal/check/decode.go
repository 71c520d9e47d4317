package check

import "golang.org/x/arch/x86/x86asm"

// longest is how many bytes an instruction has at most.
const longest = 15

// lengthOf is how many bytes of memory an x86-64 instruction reads or writes at once; 1 if that is not clear. A string
// instruction moves one element at a time.
func lengthOf(code []byte) uintptr {
	if n := vectorLength(code); n != 0 {
		return n
	}
	inst, err := x86asm.Decode(code, 64)
	if err != nil || inst.MemBytes <= 0 || inst.MemBytes > 64 {
		return 1
	}
	return uintptr(inst.MemBytes)
}

// vectorLength knows the moves that have a VEX or EVEX prefix, which the decoder does not: memory is copied with them. 0 if
// it is something else.
func vectorLength(code []byte) uintptr {
	if len(code) < 7 {
		return 0
	}
	var wide, prefix, opcode, table byte
	switch code[0] {
	case 0xC5:
		wide, prefix, opcode, table = code[1]>>2&1, code[1]&3, code[2], 1
	case 0xC4:
		wide, prefix, opcode, table = code[2]>>2&1, code[2]&3, code[3], code[1]&0x1F
	case 0x62:
		wide, prefix, opcode, table = code[3]>>5&3, code[2]&3, code[4], code[1]&7
	default:
		return 0
	}
	whole := uintptr(16) << wide
	if table != 1 {
		return 1
	}
	switch opcode {
	case 0x10, 0x11: // vmovups, vmovupd; vmovss, vmovsd
		switch prefix {
		case 2:
			return 4
		case 3:
			return 8
		}
		return whole
	case 0x28, 0x29, 0x2B, 0x6F, 0x7F, 0xE7, 0xF0: // aligned, unaligned and streaming moves of all elements
		return whole
	case 0x12, 0x13, 0x16, 0x17, 0xD6: // halves
		return 8
	case 0x6E, 0x7E: // vmovd, vmovq
		if prefix == 2 {
			return 8
		}
		return 4
	case 0x74, 0x75, 0x76, 0xD8, 0xDA, 0xDB, 0xDE, 0xEB, 0xEF, 0xD7: // what strlen and memcmp are made of
		return whole
	}
	return 1
}
