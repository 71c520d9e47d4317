//go:build !noasm

#include "textflag.h"

// func packStream(table []Entry, list []driver.Segment, to, toRoom, from, fromRoom uintptr, short uint64, tag Tag) int
TEXT ·packStream(SB), NOSPLIT, $0-104
	MOVQ table_base+0(FP), DI
	MOVQ list_base+24(FP), SI
	MOVQ list_len+32(FP), CX
	MOVQ to+48(FP), R8
	MOVQ toRoom+56(FP), R9
	MOVQ from+64(FP), R10
	MOVQ fromRoom+72(FP), R11
	LEAQ (CX)(CX*2), CX
	LEAQ (SI)(CX*8), CX // the end of the list
	NEGQ R8
	NEGQ R10
	CMPQ SI, CX
	JEQ  stop
	MOVQ 16(SI), R12
	JMP  length

loop:
	MOVQ    16(SI), R12
	CMPQ    R12, R13
	JNE     length

known: // the length is that of the segment before: it is good, and AX and DX have it
	MOVQ    0(SI), BX
	LEAQ    (BX)(R8*1), R12
	CMPQ    R12, R9
	JHI     stop
	MOVQ    8(SI), R12
	ADDQ    R10, R12
	CMPQ    R12, R11
	JHI     stop
	SUBQ    R10, R12
	ORQ     AX, BX
	ORQ     DX, R12
	MOVNTIQ BX, 0(DI)
	MOVNTIQ R12, 8(DI)
	ADDQ    $24, SI
	ADDQ    $16, DI
	CMPQ    SI, CX
	JNE     loop
	JMP     stop

length: // in R12: what of the two words is not address
	LEAQ -1(R12), BX
	CMPQ BX, short+80(FP)
	JCC  stop
	MOVQ R12, R13
	MOVQ tag+88(FP), AX
	MOVQ AX, DX
	MOVQ R12, BX
	SHLQ $54, BX
	SHRQ $6, BX
	ORQ  BX, AX
	SHRQ $10, R12
	SHLQ $48, R12
	ORQ  R12, DX
	JMP  known

stop:
	SUBQ table_base+0(FP), DI
	SHRQ $4, DI
	MOVQ DI, ret+96(FP)
	RET

// func Flush()
TEXT ·Flush(SB), NOSPLIT, $0-0
	SFENCE
	RET
