/* The kernels of launch.c. */
#include <ropeway/kernel.h>

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

void empty(void)
{
}

/*
 * Copies n bytes, a multiple of 64, past the caches, 128 bytes in turn from each of 8 pages: the best there is for memory, and what the copies of
 * the runtime do. So the row says what blocks and workers cost, and not how a loop was written.
 */
#ifdef __x86_64__
enum { PAGE = 4096, PAGES = 8 };

#define STREAM(name, isa, type, load, store) \
	__attribute__((target(isa))) static void name(char *dst, const char *src, uint64_t n) \
	{ \
		for (; n >= PAGES * PAGE; n -= PAGES * PAGE, dst += PAGES * PAGE, src += PAGES * PAGE) \
			for (int at = 0; at < PAGE; at += 128) \
				for (int page = 0; page < PAGES * PAGE; page += PAGE) \
					for (unsigned k = 0; k < 128; k += sizeof(type)) \
						store((type *)(dst + page + at + k), load((const type *)(src + page + at + k))); \
		for (uint64_t i = 0; i < n; i += sizeof(type)) \
			store((type *)(dst + i), load((const type *)(src + i))); \
		_mm_sfence(); \
	}
STREAM(stream512, "avx512f", __m512i, _mm512_load_si512, _mm512_stream_si512)
STREAM(stream256, "avx", __m256i, _mm256_load_si256, _mm256_stream_si256)
STREAM(stream128, "sse2", __m128i, _mm_load_si128, _mm_stream_si128)

static void stream(char *dst, const char *src, uint64_t n)
{
	if (__builtin_cpu_supports("avx512f"))
		stream512(dst, src, n);
	else if (__builtin_cpu_supports("avx"))
		stream256(dst, src, n);
	else
		stream128(dst, src, n);
}
#else
static void stream(char *dst, const char *src, uint64_t n) { memcpy(dst, src, n); }
#endif

/* A copy: what limits it is memory. Blocks take neighbouring pieces, as a kernel for an NPU would. */
void copy(char *dst, const char *src, uint64_t n)
{
	uint64_t blocks = ropeway_block_num(), piece = (n / blocks + 63) / 64 * 64, from = ropeway_block_idx() * piece;
	if (from < n)
		stream(dst + from, src + from, n - from < piece ? n - from : piece);
}
