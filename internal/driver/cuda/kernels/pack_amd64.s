//go:build !noasm

#include "textflag.h"

// func packNarrow(table []Entry, list []driver.Segment, to, toRoom, from, fromRoom uintptr, short uint64, tag Tag) int
TEXT ·packNarrow(SB), NOSPLIT, $0-104
	MOVQ table_base+0(FP), DI
	MOVQ list_base+24(FP), SI
	MOVQ list_len+32(FP), CX
	MOVQ to+48(FP), R8
	MOVQ toRoom+56(FP), R9
	MOVQ from+64(FP), R10
	MOVQ fromRoom+72(FP), R11
	MOVQ short+80(FP), R12
	MOVQ tag+88(FP), R13
	LEAQ (CX)(CX*2), CX
	LEAQ (SI)(CX*8), CX // the end of the list
	CMPQ SI, CX
	JEQ  stop

loop:
	MOVQ 0(SI), BX
	MOVQ 8(SI), DX
	MOVQ BX, AX
	SUBQ R8, AX
	CMPQ AX, R9
	JHI  stop
	MOVQ DX, AX
	SUBQ R10, AX
	CMPQ AX, R11
	JHI  stop
	MOVQ 16(SI), AX
	SUBQ $1, AX
	CMPQ AX, R12
	JCC  stop
	ORQ  R13, BX
	ORQ  R13, DX
	ADDQ $1, AX
	SHLQ $54, AX
	SHRQ $6, AX
	ORQ  AX, BX
	MOVQ 16(SI), AX
	SHRQ $10, AX
	SHLQ $48, AX
	ORQ  AX, DX
	MOVNTIQ BX, 0(DI)
	MOVNTIQ DX, 8(DI)
	ADDQ $24, SI
	ADDQ $16, DI
	CMPQ SI, CX
	JNE  loop

stop:
	SUBQ table_base+0(FP), DI
	SHRQ $4, DI
	MOVQ DI, ret+96(FP)
	RET

// the addresses of the first four of eight segments, in the first two vectors
DATA places<>+0(SB)/8, $0
DATA places<>+8(SB)/8, $1
DATA places<>+16(SB)/8, $3
DATA places<>+24(SB)/8, $4
DATA places<>+32(SB)/8, $6
DATA places<>+40(SB)/8, $7
DATA places<>+48(SB)/8, $9
DATA places<>+56(SB)/8, $10
// those of the others, in the last two
DATA places<>+64(SB)/8, $4
DATA places<>+72(SB)/8, $5
DATA places<>+80(SB)/8, $7
DATA places<>+88(SB)/8, $8
DATA places<>+96(SB)/8, $10
DATA places<>+104(SB)/8, $11
DATA places<>+112(SB)/8, $13
DATA places<>+120(SB)/8, $14
// the lengths of the first four, twice each
DATA places<>+128(SB)/8, $2
DATA places<>+136(SB)/8, $2
DATA places<>+144(SB)/8, $5
DATA places<>+152(SB)/8, $5
DATA places<>+160(SB)/8, $8
DATA places<>+168(SB)/8, $8
DATA places<>+176(SB)/8, $11
DATA places<>+184(SB)/8, $11
// and of the others
DATA places<>+192(SB)/8, $6
DATA places<>+200(SB)/8, $6
DATA places<>+208(SB)/8, $9
DATA places<>+216(SB)/8, $9
DATA places<>+224(SB)/8, $12
DATA places<>+232(SB)/8, $12
DATA places<>+240(SB)/8, $15
DATA places<>+248(SB)/8, $15
// by how much lengths are shifted
DATA places<>+256(SB)/8, $0
DATA places<>+264(SB)/8, $10
DATA places<>+272(SB)/8, $0
DATA places<>+280(SB)/8, $10
DATA places<>+288(SB)/8, $0
DATA places<>+296(SB)/8, $10
DATA places<>+304(SB)/8, $0
DATA places<>+312(SB)/8, $10
GLOBL places<>(SB), RODATA|NOPTR, $320

// func packWide(table []Entry, list []driver.Segment, w *wide) int
TEXT ·packWide(SB), NOSPLIT, $0-64
	MOVQ  table_base+0(FP), DI
	MOVQ  list_base+24(FP), SI
	MOVQ  list_len+32(FP), CX
	MOVQ  w+48(FP), DX
	XORQ  AX, AX
	TESTQ $63, DI // whole lines only
	JNE   end
	SHRQ  $3, CX
	JEQ   end

	VMOVDQU64    places<>+0(SB), Z16
	VMOVDQU64    places<>+64(SB), Z17
	VMOVDQU64    places<>+128(SB), Z18
	VMOVDQU64    places<>+192(SB), Z19
	VMOVDQU64    places<>+256(SB), Z24
	VMOVDQU64    0(DX), Z20
	VMOVDQU64    64(DX), Z21
	VPBROADCASTQ 128(DX), Z23
	VPBROADCASTQ 136(DX), Z26
	MOVQ         $1, BX
	VPBROADCASTQ BX, Z22
	MOVQ         $1023, BX
	VPBROADCASTQ BX, Z25

loop:
	VMOVDQU64 0(SI), Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU64 128(SI), Z2
	VMOVDQA64 Z16, Z4
	VMOVDQA64 Z17, Z5
	VMOVDQA64 Z18, Z6
	VMOVDQA64 Z19, Z7
	VPERMI2Q  Z1, Z0, Z4
	VPERMI2Q  Z2, Z1, Z5
	VPERMI2Q  Z1, Z0, Z6
	VPERMI2Q  Z2, Z1, Z7

	// Outside a window, or of no bytes or too many?
	VPSUBQ   Z20, Z4, Z8
	VPSUBQ   Z20, Z5, Z9
	VPSUBQ   Z22, Z6, Z10
	VPSUBQ   Z22, Z7, Z11
	VPCMPUQ  $6, Z21, Z8, K1
	VPCMPUQ  $6, Z21, Z9, K2
	VPCMPUQ  $5, Z23, Z10, K3
	VPCMPUQ  $5, Z23, Z11, K4
	KORW     K1, K2, K1
	KORW     K3, K4, K3
	KORTESTW K1, K3
	JNE      done

	VPSRLVQ  Z24, Z6, Z6
	VPSRLVQ  Z24, Z7, Z7
	VPANDQ   Z25, Z6, Z6
	VPANDQ   Z25, Z7, Z7
	VPSLLQ   $48, Z6, Z6
	VPSLLQ   $48, Z7, Z7
	VPORQ    Z6, Z4, Z4
	VPORQ    Z7, Z5, Z5
	VPORQ    Z26, Z4, Z4
	VPORQ    Z26, Z5, Z5
	VMOVNTDQ Z4, 0(DI)
	VMOVNTDQ Z5, 64(DI)
	ADDQ     $192, SI
	ADDQ     $128, DI
	ADDQ     $8, AX
	SUBQ     $1, CX
	JNE      loop

done:
	VZEROUPPER

end:
	MOVQ AX, ret+56(FP)
	RET

// func Flush()
TEXT ·Flush(SB), NOSPLIT, $0-0
	SFENCE
	RET
