/* Kernels that take a while. */
#define _GNU_SOURCE
#include <time.h>

#include <ropeway/kernel.h>

void endless(void)
{
	for (;;)
		__asm__ volatile("");
}

void lasts(uint32_t *word, uint64_t milliseconds)
{
	struct timespec begin, now;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((uint64_t)(now.tv_sec - begin.tv_sec) * 1000 + (uint64_t)(now.tv_nsec / 1000000) < milliseconds + (uint64_t)(begin.tv_nsec / 1000000));
	*word = 7;
	ropeway_print("the kernel has ended\n");
}
