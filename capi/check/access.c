/*
 * The number of bytes that an instruction accesses. The kernel reports the address at which an access faulted, not
 * its extent; memory in flight may begin in the middle of the access. This file decodes the common instructions of
 * compilers and of libc. For all others, and if the operand computed here does not contain the fault, the result is
 * 0: unknown.
 */
#define _GNU_SOURCE
#include "checker.h"

#if defined(__x86_64__)

#include <string.h>

struct instruction {
	unsigned map;      /* 0: one byte; 1: 0f; 2: 0f 38; 3: 0f 3a */
	unsigned opcode;
	unsigned prefix;   /* mandatory prefix: 0, 0x66, 0xf2 or 0xf3 */
	int wide;          /* REX.W or VEX.W */
	size_t vector;     /* from VEX or EVEX; 0 without them: vectors have 16 bytes */
	int evex;          /* it has an EVEX prefix */
	int broadcast;     /* EVEX.b: one element is read */
	int small;         /* 0x66 on an ordinary instruction */
	unsigned r, x, b;  /* high bits of register numbers */
	unsigned modrm;
	uintptr_t operand; /* address without disp */
	int32_t disp;
	int short_disp;    /* disp has one byte, which EVEX scales by the operand size */
};

/* The registers in the order of their numbers. */
static uintptr_t reg(const ucontext_t *c, unsigned n)
{
	static const unsigned char at[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
					   REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
	return (uintptr_t)c->uc_mcontext.gregs[at[n & 15]];
}

/* Reads prefixes and opcode. Returns the start of the operands; NULL if the instruction is unknown. */
static const unsigned char *head(const unsigned char *p, struct instruction *in)
{
	for (int i = 0; i < 14; i++, p++) {
		if (*p == 0x66)
			in->small = 1;
		else if (*p == 0xf2 || *p == 0xf3)
			in->prefix = *p;
		else if (*p == 0x64 || *p == 0x65 || *p == 0x67)
			return NULL; /* a segment, or short addresses */
		else if (*p != 0x2e && *p != 0x36 && *p != 0x3e && *p != 0x26 && *p != 0xf0)
			break;
	}
	if (in->small && !in->prefix)
		in->prefix = 0x66;
	if ((*p & 0xf0) == 0x40) {
		in->wide = *p >> 3 & 1;
		in->r = *p >> 2 & 1;
		in->x = *p >> 1 & 1;
		in->b = *p & 1;
		p++;
	}
	static const unsigned chosen[] = {0, 0x66, 0xf3, 0xf2};
	if (*p == 0xc5 || *p == 0xc4) {
		int three = *p == 0xc4;
		in->map = three ? p[1] & 31 : 1;
		in->x = three && !(p[1] & 0x40);
		in->b = three && !(p[1] & 0x20);
		in->wide = three && p[2] & 0x80;
		in->vector = p[1 + three] & 4 ? 32 : 16;
		in->prefix = chosen[p[1 + three] & 3];
		p += 2 + three;
	} else if (*p == 0x62) {
		in->evex = 1;
		in->map = p[1] & 7;
		in->x = !(p[1] & 0x40);
		in->b = !(p[1] & 0x20);
		in->wide = p[2] >> 7;
		in->prefix = chosen[p[2] & 3];
		in->broadcast = p[3] >> 4 & 1;
		in->vector = (size_t)16 << (p[3] >> 5 & 3);
		if (p[3] & 7 || in->vector > 64)
			return NULL; /* a mask selects the accessed elements */
		p += 4;
	} else if (*p == 0x0f) {
		in->map = 1;
		p++;
		if (*p == 0x38 || *p == 0x3a)
			in->map = *p++ == 0x38 ? 2 : 3;
	}
	in->opcode = *p++;
	return p;
}

/* Computes the address of the operand in memory. */
static int operand(const unsigned char *p, const ucontext_t *c, struct instruction *in)
{
	in->modrm = *p++;
	unsigned mod = in->modrm >> 6, rm = in->modrm & 7;
	if (mod == 3 || (mod == 0 && rm == 5))
		return 0; /* a register, or relative to the code */
	int none = 0;
	if (rm == 4) {
		unsigned sib = *p++, index = (sib >> 3 & 7) | in->x << 3;
		if (index != 4)
			in->operand = reg(c, index) << (sib >> 6);
		none = mod == 0 && (sib & 7) == 5;
		rm = sib & 7;
	}
	if (!none)
		in->operand += reg(c, rm | in->b << 3);
	if (mod == 1) {
		in->disp = (signed char)*p;
		in->short_disp = 1;
	} else if (mod == 2 || none) {
		memcpy(&in->disp, p, sizeof in->disp);
	}
	return 1;
}

static size_t integer(const struct instruction *in)
{
	return in->wide ? 8 : in->small ? 2 : 4;
}

/* Instructions of one byte: numbers, and the old floating-point unit. */
static size_t ordinary(const struct instruction *in)
{
	unsigned op = in->opcode, digit = in->modrm >> 3 & 7;
	if (op < 0x40)
		return (op & 7) > 3 ? 0 : op & 1 ? integer(in) : 1;
	switch (op) {
	case 0x63:
		return 4;
	case 0x80: case 0x84: case 0x86: case 0x88: case 0x8a: case 0xc0: case 0xc6: case 0xd0: case 0xd2: case 0xf6: case 0xfe:
		return 1;
	case 0x69: case 0x6b: case 0x81: case 0x83: case 0x85: case 0x87: case 0x89: case 0x8b: case 0xc1: case 0xc7: case 0xd1:
	case 0xd3: case 0xf7:
		return integer(in);
	case 0x8f:
		return 8;
	case 0xff:
		return digit == 2 || digit == 4 || digit == 6 ? 8 : integer(in);
	case 0xd8: case 0xda:
		return 4;
	case 0xd9:
		return digit < 4 ? 4 : digit == 5 || digit == 7 ? 2 : 0;
	case 0xdb:
		return digit < 4 ? 4 : digit == 5 || digit == 7 ? 10 : 0;
	case 0xdc:
		return 8;
	case 0xdd:
		return digit < 4 ? 8 : 0;
	case 0xde:
		return 2;
	case 0xdf:
		return digit < 4 ? 2 : digit & 1 ? 8 : 10;
	}
	return 0;
}

/* 0f: vectors, and more of numbers. whole is the size of a vector. */
static size_t extended(const struct instruction *in, size_t whole)
{
	unsigned op = in->opcode, prefix = in->prefix;
	size_t by_kind = prefix == 0xf3 ? 4 : prefix == 0xf2 ? 8 : whole;
	size_t old = prefix || in->vector ? whole : 8; /* without a prefix: registers of 8 bytes */
	if (op >= 0x40 && op < 0x50)
		return in->vector ? 0 : integer(in);
	if (op >= 0x90 && op < 0xa0)
		return in->vector ? 0 : 1;
	switch (op) {
	case 0x10: case 0x11: case 0xc2:
		return by_kind;
	case 0x12: case 0x16:
		return prefix == 0xf3 ? whole : prefix == 0xf2 && whole > 16 ? whole : 8;
	case 0x13: case 0x17: case 0xd6:
		return 8;
	case 0x14: case 0x15: case 0x28: case 0x29: case 0x2b: case 0x5b: case 0x7c: case 0x7d: case 0xc6: case 0xd0: case 0xf0:
		return whole;
	case 0x2a:
		return prefix == 0xf2 || prefix == 0xf3 ? (in->wide ? 8 : 4) : 8;
	case 0x2c: case 0x2d:
		return prefix == 0xf3 ? 4 : prefix == 0x66 ? 16 : 8;
	case 0x2e: case 0x2f:
		return prefix == 0x66 ? 8 : 4;
	case 0x5a:
		return prefix == 0xf3 ? 4 : prefix == 0xf2 ? 8 : prefix == 0x66 ? whole : whole / 2;
	case 0xe6:
		return prefix == 0xf3 ? whole / 2 : whole;
	case 0x6e:
		return in->wide ? 8 : 4;
	case 0x7e:
		return prefix == 0xf3 || in->wide ? 8 : 4;
	case 0xd1: case 0xd2: case 0xd3: case 0xe1: case 0xe2: case 0xf1: case 0xf2: case 0xf3:
		return old < 16 ? old : 16; /* by how much to shift */
	case 0xc4:
		return 2;
	case 0xa3: case 0xa4: case 0xa5: case 0xab: case 0xac: case 0xad: case 0xaf: case 0xb1: case 0xb3: case 0xb8: case 0xba:
	case 0xbb: case 0xbc: case 0xbd: case 0xc1:
		return integer(in);
	case 0xb0: case 0xb6: case 0xbe: case 0xc0:
		return 1;
	case 0xb7: case 0xbf:
		return 2;
	case 0xc3:
		return in->wide ? 8 : 4;
	case 0xc7:
		return (in->modrm >> 3 & 7) == 1 ? (in->wide ? 16 : 8) : 0;
	}
	if (op >= 0x51 && op <= 0x5f)
		return by_kind;
	if ((op >= 0x60 && op <= 0x7f && op != 0x71 && op != 0x72 && op != 0x73) || (op >= 0xd1 && op != 0xff))
		return old;
	return 0;
}

/* 0f 38 and 0f 3a: loads that extend or insert elements, and operations on whole vectors. */
static size_t later(const struct instruction *in, size_t whole)
{
	unsigned op = in->opcode;
	if (in->map == 3) {
		switch (op) {
		case 0x14: case 0x20:
			return 1;
		case 0x15:
			return 2;
		case 0x16: case 0x22: case 0xf0:
			return in->wide ? 8 : 4;
		case 0x17: case 0x21: case 0x0a:
			return 4;
		case 0x0b:
			return 8;
		case 0x1d:
			return whole / 2;
		case 0x18: case 0x19: case 0x38: case 0x39:
			return 16;
		case 0x1a: case 0x1b: case 0x3a: case 0x3b:
			return 32;
		}
		return in->vector > 32 ? 0 : in->prefix ? whole : 8;
	}
	if (in->evex && in->prefix == 0xf3)
		return 0;
	switch (op) {
	case 0x20: case 0x30: case 0x23: case 0x33: case 0x25: case 0x35: case 0x13:
		return whole / 2;
	case 0x21: case 0x31: case 0x24: case 0x34:
		return whole / 4;
	case 0x22: case 0x32:
		return whole / 8;
	case 0x78:
		return 1;
	case 0x79:
		return 2;
	case 0x18: case 0x58:
		return 4;
	case 0x19: case 0x59:
		return 8;
	case 0x1a: case 0x5a:
		return 16;
	case 0x2a:
		return whole;
	case 0xf0: case 0xf1:
		return in->prefix == 0xf2 && op == 0xf0 ? 1 : integer(in);
	case 0xf2: case 0xf3: case 0xf5: case 0xf6: case 0xf7:
		return in->wide ? 8 : 4;
	}
	if (op >= 0x96 && op < 0xc0 && op & 1 && (op & 0xf) >= 9)
		return in->wide ? 8 : 4; /* one element times another */
	if (op < 0x18 || (op >= 0x1c && op < 0x2c) || (op >= 0x37 && op < 0x42) || (op >= 0x96 && op < 0xc0))
		return in->prefix ? whole : 8;
	return 0; /* masks, gathers and unknown instructions */
}

size_t check_access_size(const ucontext_t *ctx, uintptr_t address)
{
	struct instruction in = {0};
	const unsigned char *p = head((const unsigned char *)(uintptr_t)ctx->uc_mcontext.gregs[REG_RIP], &in);
	if (!p || !operand(p, ctx, &in))
		return 0;
	size_t whole = in.vector ? in.vector : 16, size = 0;
	switch (in.map) {
	case 0:
		size = ordinary(&in);
		break;
	case 1:
		size = extended(&in, whole);
		break;
	case 2: case 3:
		size = later(&in, whole);
		break;
	}
	if (in.broadcast)
		size = in.wide ? 8 : 4;
	intptr_t scale = in.evex && in.short_disp ? (intptr_t)size : 1;
	uintptr_t start = in.operand + (uintptr_t)(in.disp * scale);
	return address - start < size ? start + size - address : 0;
}

#else

size_t check_access_size(const ucontext_t *ctx, uintptr_t address)
{
	(void)ctx;
	(void)address;
	return 0;
}

#endif
