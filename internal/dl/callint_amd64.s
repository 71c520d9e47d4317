#include "textflag.h"

// plain is a function of C: it calls the one in the frame that DI points to with the words there, on the stack it
// finds, and returns what that returned. A frame is the function and fourteen words.
TEXT plain<>(SB), NOSPLIT|NOFRAME, $0-0
	PUSHQ BP
	MOVQ  SP, BP
	SUBQ  $64, SP       // room for the last eight words; SP is a multiple of 16
	MOVQ  DI, R11
	MOVQ  56(R11), AX
	MOVQ  AX, 0(SP)
	MOVQ  64(R11), AX
	MOVQ  AX, 8(SP)
	MOVQ  72(R11), AX
	MOVQ  AX, 16(SP)
	MOVQ  80(R11), AX
	MOVQ  AX, 24(SP)
	MOVQ  88(R11), AX
	MOVQ  AX, 32(SP)
	MOVQ  96(R11), AX
	MOVQ  AX, 40(SP)
	MOVQ  104(R11), AX
	MOVQ  AX, 48(SP)
	MOVQ  112(R11), AX
	MOVQ  AX, 56(SP)
	MOVQ  8(R11), DI
	MOVQ  16(R11), SI
	MOVQ  24(R11), DX
	MOVQ  32(R11), CX
	MOVQ  40(R11), R8
	MOVQ  48(R11), R9
	XORL  AX, AX
	MOVQ  0(R11), R11
	CALL  R11
	MOVQ  BP, SP
	POPQ  BP
	RET

DATA ·plainAddr(SB)/8, $plain<>(SB)
GLOBL ·plainAddr(SB), NOPTR|RODATA, $8
