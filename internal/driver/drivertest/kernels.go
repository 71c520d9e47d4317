package drivertest

import (
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/kernel"
	"ropeway/internal/kernel/kerneltest"
)

// Kernels is a binary with kernels that the driver can run; the test is skipped if it runs none.
func Kernels(t testing.TB, d driver.Driver) []byte {
	t.Helper()
	l, ok := driver.As[driver.Launcher](d)
	if !ok {
		t.Skip("the driver runs no kernels")
	}
	if l.Runs(kernel.PTX) {
		return []byte(PTX)
	}
	kerneltest.Support(t)
	return kerneltest.Compile(t, cKernels)
}

// The same kernels for each kind of device. On a GPU blocks and threads share the work; on a CPU blocks do.
//
//	sum      z[i] = x[i] + y[i], for i < n
//	times    p[i] *= scale, a variable of the binary
//	follow   adds 1 to the word that *p leads to
//	mix      to[i] += from[i]*v + i, for i < n; bytes. Where to and from share bytes, they are the same
//	nothing  does nothing
//
// And for GPUs alone:
//
//	wild     writes to an address
//	trap     stops itself
//	linger   ends after so many nanoseconds
//	place    writes the number of each thread to its place of a list
const cKernels = `
#include <stdint.h>
#include "ropeway/kernel.h"
uint32_t scale = 3;
void sum(const uint32_t *x, const uint32_t *y, uint32_t *z, uint64_t n) {
	for (uint64_t i = ropeway_block_idx(); i < n; i += ropeway_block_num()) z[i] = x[i] + y[i];
}
void times(uint32_t *p, uint64_t n) {
	for (uint64_t i = ropeway_block_idx(); i < n; i += ropeway_block_num()) p[i] *= scale;
}
void follow(uint32_t **p) { if (ropeway_block_idx() == 0) **p += 1; }
void mix(uint8_t *to, const uint8_t *from, uint64_t n, uint64_t v) {
	for (uint64_t i = ropeway_block_idx(); i < n; i += ropeway_block_num()) to[i] += from[i] * v + i;
}
void nothing(void) {}
`

// PTX is those kernels for a GPU. What imitates one knows them by their names.
const PTX = `.version 6.0
.target sm_50
.address_size 64

.visible .global .align 4 .u32 scale = 3;

.visible .entry sum(.param .u64 sum_x, .param .u64 sum_y, .param .u64 sum_z, .param .u64 sum_n)
{
	.reg .pred %p<2>;
	.reg .b32 %r<9>;
	.reg .b64 %d<12>;
	ld.param.u64 %d1, [sum_x];
	ld.param.u64 %d2, [sum_y];
	ld.param.u64 %d3, [sum_z];
	ld.param.u64 %d4, [sum_n];
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ntid.x;
	mov.u32 %r3, %tid.x;
	mov.u32 %r4, %nctaid.x;
	mad.lo.u32 %r5, %r1, %r2, %r3;
	cvt.u64.u32 %d5, %r5;
	mul.wide.u32 %d6, %r2, %r4;
again:
	setp.ge.u64 %p1, %d5, %d4;
	@%p1 bra over;
	shl.b64 %d7, %d5, 2;
	add.u64 %d8, %d1, %d7;
	add.u64 %d9, %d2, %d7;
	add.u64 %d10, %d3, %d7;
	ld.u32 %r6, [%d8];
	ld.u32 %r7, [%d9];
	add.u32 %r8, %r6, %r7;
	st.u32 [%d10], %r8;
	add.u64 %d5, %d5, %d6;
	bra again;
over:
	ret;
}

.visible .entry times(.param .u64 times_p, .param .u64 times_n)
{
	.reg .pred %p<2>;
	.reg .b32 %r<9>;
	.reg .b64 %d<9>;
	ld.param.u64 %d1, [times_p];
	ld.param.u64 %d4, [times_n];
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ntid.x;
	mov.u32 %r3, %tid.x;
	mov.u32 %r4, %nctaid.x;
	mad.lo.u32 %r5, %r1, %r2, %r3;
	cvt.u64.u32 %d5, %r5;
	mul.wide.u32 %d6, %r2, %r4;
	ld.global.u32 %r7, [scale];
again:
	setp.ge.u64 %p1, %d5, %d4;
	@%p1 bra over;
	shl.b64 %d7, %d5, 2;
	add.u64 %d8, %d1, %d7;
	ld.u32 %r6, [%d8];
	mul.lo.u32 %r8, %r6, %r7;
	st.u32 [%d8], %r8;
	add.u64 %d5, %d5, %d6;
	bra again;
over:
	ret;
}

.visible .entry follow(.param .u64 follow_p)
{
	.reg .pred %p<2>;
	.reg .b32 %r<5>;
	.reg .b64 %d<3>;
	ld.param.u64 %d1, [follow_p];
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %tid.x;
	or.b32 %r3, %r1, %r2;
	setp.ne.u32 %p1, %r3, 0;
	@%p1 bra over;
	ld.u64 %d2, [%d1];
	ld.u32 %r4, [%d2];
	add.u32 %r4, %r4, 1;
	st.u32 [%d2], %r4;
over:
	ret;
}

.visible .entry mix(.param .u64 mix_to, .param .u64 mix_from, .param .u64 mix_n, .param .u64 mix_v)
{
	.reg .pred %p<2>;
	.reg .b32 %r<11>;
	.reg .b64 %d<10>;
	ld.param.u64 %d1, [mix_to];
	ld.param.u64 %d2, [mix_from];
	ld.param.u64 %d3, [mix_v];
	ld.param.u64 %d4, [mix_n];
	cvt.u32.u64 %r9, %d3;
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ntid.x;
	mov.u32 %r3, %tid.x;
	mov.u32 %r4, %nctaid.x;
	mad.lo.u32 %r5, %r1, %r2, %r3;
	cvt.u64.u32 %d5, %r5;
	mul.wide.u32 %d6, %r2, %r4;
again:
	setp.ge.u64 %p1, %d5, %d4;
	@%p1 bra over;
	add.u64 %d8, %d1, %d5;
	add.u64 %d9, %d2, %d5;
	ld.u8 %r6, [%d9];
	ld.u8 %r7, [%d8];
	mad.lo.u32 %r8, %r6, %r9, %r7;
	cvt.u32.u64 %r10, %d5;
	add.u32 %r8, %r8, %r10;
	st.u8 [%d8], %r8;
	add.u64 %d5, %d5, %d6;
	bra again;
over:
	ret;
}

.visible .entry nothing()
{
	ret;
}

.visible .entry wild(.param .u64 wild_p)
{
	.reg .b64 %d<2>;
	ld.param.u64 %d1, [wild_p];
	st.u32 [%d1], 1;
	ret;
}

.visible .entry trap()
{
	trap;
}

.visible .entry linger(.param .u64 linger_ns)
{
	.reg .pred %p<2>;
	.reg .b64 %d<5>;
	ld.param.u64 %d1, [linger_ns];
	mov.u64 %d2, %globaltimer;
again:
	mov.u64 %d3, %globaltimer;
	sub.u64 %d4, %d3, %d2;
	setp.lt.u64 %p1, %d4, %d1;
	@%p1 bra again;
	ret;
}

.visible .entry place(.param .u64 place_p)
{
	.reg .b32 %r<20>;
	.reg .b64 %d<4>;
	ld.param.u64 %d1, [place_p];
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ctaid.y;
	mov.u32 %r3, %ctaid.z;
	mov.u32 %r4, %nctaid.x;
	mov.u32 %r5, %nctaid.y;
	mad.lo.u32 %r6, %r3, %r5, %r2;
	mad.lo.u32 %r7, %r6, %r4, %r1;
	mov.u32 %r8, %tid.x;
	mov.u32 %r9, %tid.y;
	mov.u32 %r10, %tid.z;
	mov.u32 %r11, %ntid.x;
	mov.u32 %r12, %ntid.y;
	mov.u32 %r13, %ntid.z;
	mad.lo.u32 %r14, %r10, %r12, %r9;
	mad.lo.u32 %r15, %r14, %r11, %r8;
	mul.lo.u32 %r16, %r11, %r12;
	mul.lo.u32 %r17, %r16, %r13;
	mad.lo.u32 %r18, %r7, %r17, %r15;
	mul.wide.u32 %d2, %r18, 4;
	add.u64 %d3, %d1, %d2;
	st.u32 [%d3], %r18;
	ret;
}
`
