/* What the programs that prove the C side of the checker share: see check_faults_test.go. */
#ifndef CHECK_FAULTS_H
#define CHECK_FAULTS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <string.h>

#include "acl/acl.h"
#include "check.h"
#include "check_core.h"

enum { PAGE = 4096 };

/* What the core has seen. */
static inline struct check_seen *seen(void)
{
	static struct check_seen *s;
	if (!s) {
		void *core = dlopen("libropeway_core.so", RTLD_NOW | RTLD_NOLOAD);
		CHECK(core);
		check_seen_function f = (check_seen_function)(uintptr_t)dlsym(core, "check_seen");
		CHECK(f);
		s = f();
	}
	return s;
}

/* New pinned memory, of whole pages, filled with a pattern. */
static inline unsigned char *pinned(size_t pages)
{
	void *p = NULL;
	OK(aclrtMallocHost(&p, pages * PAGE));
	for (size_t i = 0; i < pages * PAGE; i++)
		((unsigned char *)p)[i] = (unsigned char)(i * 7 + i / 251);
	memset(seen(), 0, sizeof *seen());
	return p;
}

static inline unsigned char pattern(size_t i)
{
	return (unsigned char)(i * 7 + i / 251);
}

/* Puts bytes in flight as the destination of a copy: they may not be touched; or as a source: they may be read. */
static inline void destination(void *p, size_t n)
{
	static char device;
	OK(aclrtMemcpyAsync(p, n, &device, n, ACL_MEMCPY_DEVICE_TO_HOST, NULL));
}

static inline void source(void *p, size_t n)
{
	static char device;
	OK(aclrtMemcpyAsync(&device, n, p, n, ACL_MEMCPY_HOST_TO_DEVICE, NULL));
}

/* A test and its name; the program runs the one it is asked for. */
struct mode {
	const char *name;
	void (*run)(void);
};

#define MODE(function) {#function, function}

static inline int run_mode(const struct mode *modes, size_t n, int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < n; i++)
		if (strcmp(modes[i].name, argv[1]) == 0) {
			modes[i].run();
			return 0;
		}
	return 2;
}

#endif
