/* The kernels of launch.c. */
#include <ropeway/kernel.h>

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

void empty(void)
{
}

/* n bytes, a multiple of 64, past the caches, as the copies of the runtime are made. */
static void stream(char *dst, const char *src, uint64_t n)
{
#ifdef __SSE2__
	for (uint64_t i = 0; i < n; i += 64) {
		_mm_prefetch(src + i + 1024, _MM_HINT_NTA);
		for (int k = 0; k < 64; k += 16)
			_mm_stream_si128((__m128i *)(dst + i + k), _mm_load_si128((const __m128i *)(src + i + k)));
	}
	_mm_sfence();
#else
	memcpy(dst, src, n);
#endif
}

/* A copy: what limits it is memory. Blocks take neighbouring pieces, as a kernel for an NPU would. */
void copy(char *dst, const char *src, uint64_t n)
{
	uint64_t blocks = ropeway_block_num(), piece = (n / blocks + 63) / 64 * 64, from = ropeway_block_idx() * piece;
	if (from < n)
		stream(dst + from, src + from, n - from < piece ? n - from : piece);
}
