//go:build !noasm

#include "textflag.h"

// func isIntel() bool
TEXT ·isIntel(SB), NOSPLIT, $0-1
	XORL AX, AX
	XORL CX, CX
	CPUID
	CMPL BX, $0x756e6547 // the first four letters of "GenuineIntel"
	SETEQ ret+0(FP)
	RET
