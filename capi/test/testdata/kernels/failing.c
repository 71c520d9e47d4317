/* The kernels of kernel_process.c: each does what ends a program. */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "ropeway/kernel.h"

uint32_t launches = 0;

void counts(uint32_t *out)
{
	*out = ++launches;
}

void wild(volatile int *p)
{
	*p = 1;
}

void divides(uint64_t zero)
{
	volatile int n = 1;
	n /= (int)zero;
}

void gives_up(void)
{
	abort();
}

void ends(void)
{
	ropeway_print("a kernel ends its process\n");
	exit(0);
}

void is_killed(void)
{
	kill(getpid(), SIGKILL);
}

void endless(void)
{
	for (;;)
		;
}
