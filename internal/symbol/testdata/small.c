/* Functions that the compiler inlines, nests, clones and leaves alone. */
#include <stddef.h>

__attribute__((noinline)) long outer(long n);
volatile long sink;

static inline __attribute__((always_inline)) long innermost(long n)
{
	if (n < 0)
		sink = n / 3;
	return n * 7 + sink;
}

static inline __attribute__((always_inline)) long middle(long n)
{
	long sum = 0;
	for (long i = 0; i < n; i++)
		sum += innermost(i);
	return sum;
}

long outer(long n)
{
	long (*nested_pointer)(long);
	{
		long kept = middle(n);
		sink = kept;
	}
	if (n > 100)
		return innermost(n) + middle(n / 2);
	nested_pointer = outer;
	return n > 0 ? nested_pointer(n - 1) + 1 : 0;
}

static __attribute__((noinline, noclone)) long hidden(const long *p, size_t n)
{
	long most = 0;
	while (n--)
		if (p[n] > most)
			most = p[n];
	return most;
}

long entry(long n)
{
	long some[4] = {n, n + 1, sink, outer(n)};
	return hidden(some, 4);
}

void *entry_address(void)
{
	return (void *)entry;
}
