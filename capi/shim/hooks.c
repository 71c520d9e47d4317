/*
 * Hooks: functions that run in place of functions of the API (aclrtApiInjectionSetFunc), and the tool that sets them
 * (ACL_API_INJECTION).
 *
 * A tool is loaded with this library, before main. Hooks are set without the core, so a program under a tool can still fork before
 * its first call. The core only refuses calls that are wrong.
 */
#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

_Atomic(aclrtApiFunc) ropeway_hooks[ROPEWAY_FUNCTIONS];

/* Numbers of the functions that can be hooked, by name. Set before main, by the constructor. */
static uint16_t sorted[ROPEWAY_FUNCTIONS];
static size_t hookable;

static int by_name(const void *a, const void *b)
{
	return strcmp(ropeway_names[*(const uint16_t *)a].name, ropeway_names[*(const uint16_t *)b].name);
}

static int against_name(const void *name, const void *number)
{
	return strcmp(name, ropeway_names[*(const uint16_t *)number].name);
}

/* The number of a function that can be hooked; -1 for any other name. */
static int number_of(const char *name)
{
	const uint16_t *found = name ? bsearch(name, sorted, hookable, sizeof *sorted, against_name) : NULL;
	return found ? *found : -1;
}

EXPORT aclError aclrtApiInjectionSetFunc(const char *name, aclrtApiFunc func)
{
	int number = number_of(name);
	if (number < 0 || !func)
		return refuse_aclrtApiInjectionSetFunc(name, func);
	atomic_store(&ropeway_hooks[number], func == ropeway_originals[number] ? NULL : func);
	return ACL_SUCCESS;
}

EXPORT aclError aclrtApiInjectionGetFunc(const char *name, aclrtApiFunc *originFunc, aclrtApiFunc *currentFunc)
{
	int number = number_of(name);
	if (number < 0)
		return refuse_aclrtApiInjectionGetFunc(name, originFunc, currentFunc);
	aclrtApiFunc hook = atomic_load(&ropeway_hooks[number]);
	if (originFunc)
		*originFunc = ropeway_originals[number];
	if (currentFunc)
		*currentFunc = hook ? hook : ropeway_originals[number];
	return ACL_SUCCESS;
}

/* A tool that fails is left in memory, since its threads may be running, but without hooks. */
static void load(const char *path)
{
	void *tool = dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
	if (!tool) {
		fprintf(stderr, "ropeway: ACL_API_INJECTION: cannot load the tool: %s. The program runs without it\n", dlerror());
		return;
	}
	int32_t (*initialize)(void) = (int32_t (*)(void))(uintptr_t)dlsym(tool, "acltoolInitialize");
	if (!initialize) {
		fprintf(stderr, "ropeway: ACL_API_INJECTION: %s has no function acltoolInitialize. The program runs without it\n", path);
		return;
	}
	int32_t failed = initialize();
	if (!failed)
		return;
	fprintf(stderr, "ropeway: ACL_API_INJECTION: acltoolInitialize of %s returned %d. The program runs without it\n", path, failed);
	for (size_t i = 0; i < ROPEWAY_FUNCTIONS; i++)
		atomic_store(&ropeway_hooks[i], NULL);
}

void ropeway_load_tool(void)
{
	for (size_t i = 0; i < ROPEWAY_FUNCTIONS; i++)
		if (ropeway_originals[i])
			sorted[hookable++] = (uint16_t)i;
	qsort(sorted, hookable, sizeof *sorted, by_name);
	const char *path = ropeway_setting("ACL_API_INJECTION");
	if (path && *path)
		load(path);
}
