/*
 * The environment of programs with more rights than their caller, for example set-user-ID programs (AT_SECURE): the
 * caller chose it, so it is ignored.
 */
#define _GNU_SOURCE
#include "shim.h"

#include <stdlib.h>
#include <sys/auxv.h>

/* Variables that the Go runtime reads when it is loaded. */
static const char *const of_go[] = {"GODEBUG", "GOTRACEBACK", "GOMAXPROCS", "GOGC", "GOMEMLIMIT"};

static int names(const char *variable, const char *name)
{
	size_t n = strlen(name);
	return !strncmp(variable, name, n) && variable[n] == '=';
}

/* Removes a variable from a list. */
static void drop(char **list, const char *name)
{
	char **kept = list;
	for (; *list; list++)
		if (!names(*list, name))
			*kept++ = *list;
	*kept = NULL;
}

const char *ropeway_setting(const char *name)
{
	return secure_getenv(name);
}

void ropeway_secure(char **first)
{
	if (!getauxval(AT_SECURE))
		return;
	for (size_t i = 0; i < sizeof of_go / sizeof *of_go; i++) {
		unsetenv(of_go[i]);
		drop(first, of_go[i]); /* the runtime reads the initial environment */
	}
}
