/* What programs need that run as two servers of a pod: checks, and files in a directory by which the two meet. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <acl/acl.h>

enum { MIB = 1024 * 1024, SIZE = 4 * MIB };

#define FAIL(...) (fprintf(stderr, "%s:%d: ", __FILE__, __LINE__), fprintf(stderr, __VA_ARGS__), fprintf(stderr, "\n"), exit(1))
#define WANT(call, want) \
	do { \
		aclError got_ = (call); \
		if (got_ != (want)) { \
			const char *why_ = aclGetRecentErrMsg(); \
			FAIL("%s returns %d, want %d: %s", #call, got_, (int)(want), why_ ? why_ : ""); \
		} \
	} while (0)
#define OK(call) WANT(call, ACL_SUCCESS)

/* The same, and the message says why. */
#define SAYS(call, want, text) \
	do { \
		WANT(call, want); \
		const char *says_ = aclGetRecentErrMsg(); \
		if (says_ == NULL || strstr(says_, text) == NULL) \
			FAIL("%s does not say \"%s\": %s", #call, text, says_ ? says_ : ""); \
	} while (0)

__attribute__((unused)) static const char *dir;
__attribute__((unused)) static aclrtStream stream;
__attribute__((unused)) static unsigned char *host;

/* Files by which the two meet: one is there when it is complete. */
__attribute__((unused)) static const char *path(const char *name)
{
	static char text[2][4096];
	static int turn;
	char *t = text[turn ^= 1];
	snprintf(t, sizeof(text[0]), "%s/%s", dir, name);
	return t;
}

__attribute__((unused)) static void put(const char *name, const void *data, size_t n)
{
	char part[64];
	snprintf(part, sizeof part, "%s.part", name); /* the other server may be writing another one */
	FILE *f = fopen(path(part), "w");
	if (f == NULL || fwrite(data, 1, n, f) != n || fclose(f) != 0 || rename(path(part), path(name)) != 0)
		FAIL("%s cannot be written", name);
}

__attribute__((unused)) static void get(const char *name, void *data, size_t n)
{
	FILE *f;
	for (int waited = 0; (f = fopen(path(name), "r")) == NULL; waited++) {
		if (waited > 120000) /* ms, or more */
			FAIL("the other server does not say %s", name);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	if (fread(data, 1, n, f) != n)
		FAIL("%s is too short", name);
	fclose(f);
}

__attribute__((unused)) static void say(const char *name) { put(name, name, 1); }
__attribute__((unused)) static void hear(const char *name) { char c; get(name, &c, 1); }
