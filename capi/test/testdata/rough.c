/*
 * What rough programs do to the library. Each mode is one of them; those that crash do so on purpose. No mode links the
 * library: it is opened where the mode wants it, by the path in the second argument.
 */
#define _GNU_SOURCE
#include <acl/acl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

#define LOAD(library, function) __typeof__(&function) function##_ = (__typeof__(&function))dlsym(library, #function)

static void *library;
static const char *path;

static void open_library(void)
{
	library = dlopen(path, RTLD_NOW);
	CHECK(library);
}

/* setenv: variables that the program itself has set count. */
static void mode_setenv(void)
{
	uint32_t count = 0;
	setenv("ASCEND_RT_VISIBLE_DEVICES", "1,2", 1);
	setenv("ROPEWAY_PRODUCT", "950", 1);
	open_library();
	LOAD(library, aclrtGetDeviceCount);
	LOAD(library, aclrtGetSocName);
	OK(aclrtGetDeviceCount_(&count));
	CHECK(count == 2 && strstr(aclrtGetSocName_(), "950"));
}

/* cancel: a thread that is cancelled makes the first call; the next thread is not to hang. */
static void *cancelled(void *unused)
{
	(void)unused;
	LOAD(library, aclrtSetDevice);
	pthread_cancel(pthread_self());
	OK(aclrtSetDevice_(0));
	pthread_testcancel();
	return NULL;
}

static void mode_cancel(void)
{
	pthread_t thread;
	void *result;
	open_library();
	CHECK(pthread_create(&thread, NULL, cancelled, NULL) == 0);
	CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
	LOAD(library, aclrtSetDevice);
	OK(aclrtSetDevice_(0));
}

/* keys: the process has no pthread key left. */
static pthread_key_t mine;
static int destroyed;

static void destroy(void *value)
{
	CHECK(strcmp(value, "mine") == 0);
	destroyed = 1;
}

static void *keyed(void *unused)
{
	const char *driver = getenv("ROPEWAY_DRIVER");
	(void)unused;
	LOAD(library, aclrtSetDevice);
	CHECK(pthread_setspecific(mine, "mine") == 0);
	if (driver && strcmp(driver, "cuda") == 0) { /* libcuda cannot do without; it would crash */
		LOAD(library, aclGetRecentErrMsg);
		CHECK(aclrtSetDevice_(0) != ACL_SUCCESS);
		CHECK(strstr(aclGetRecentErrMsg_(), "no pthread key left"));
	} else {
		OK(aclrtSetDevice_(0));
	}
	return NULL;
}

static void mode_keys(void)
{
	pthread_key_t key;
	pthread_t thread;
	CHECK(pthread_key_create(&mine, destroy) == 0);
	while (pthread_key_create(&key, NULL) == 0)
		;
	open_library();
	CHECK(pthread_create(&thread, NULL, keyed, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0 && destroyed);
}

/* plugin: a constructor calls the library while it is being opened, and so does another thread. */
static pthread_barrier_t both;

__attribute__((visibility("default"))) void rough_plugin(void)
{
	uint32_t count = 0;
	pthread_barrier_wait(&both); /* the loader's lock is held */
	usleep(20000);		     /* so that the other one is likely to be in its first call */
	LOAD(library, aclrtGetDeviceCount);
	OK(aclrtGetDeviceCount_(&count));
}

static void *open_plugin(void *plugin)
{
	CHECK(dlopen(plugin, RTLD_NOW));
	return NULL;
}

static void mode_plugin(const char *plugin)
{
	pthread_t thread;
	open_library();
	LOAD(library, aclrtSetDevice);
	CHECK(pthread_barrier_init(&both, NULL, 2) == 0);
	CHECK(pthread_create(&thread, NULL, open_plugin, (void *)plugin) == 0);
	pthread_barrier_wait(&both);
	OK(aclrtSetDevice_(0));
	CHECK(pthread_join(thread, NULL) == 0);
}

/* crash_…: a fault inside a callback. */
static void crash(void *unused)
{
	(void)unused;
	*(volatile int *)0x50 = 1;
}

static void crash_in_state(aclrtStream stream, aclrtStreamState state, void *args)
{
	(void)stream;
	(void)state;
	crash(args);
}

static void *report(void *unused)
{
	LOAD(library, aclrtProcessReport);
	for (;;)
		aclrtProcessReport_(1000);
	return unused;
}

static void mode_crash(const char *where)
{
	aclrtStream stream;
	pthread_t thread;
	open_library();
	LOAD(library, aclrtSetDevice);
	LOAD(library, aclrtCreateStream);
	LOAD(library, aclrtLaunchHostFunc);
	LOAD(library, aclrtLaunchCallback);
	LOAD(library, aclrtSubscribeReport);
	LOAD(library, aclrtRegStreamStateCallback);
	LOAD(library, aclrtSynchronizeStream);
	OK(aclrtSetDevice_(0));
	if (strcmp(where, "state") == 0)
		OK(aclrtRegStreamStateCallback_("rough", crash_in_state, NULL));
	OK(aclrtCreateStream_(&stream));
	if (strcmp(where, "hostfunc") == 0) {
		OK(aclrtLaunchHostFunc_(stream, crash, NULL));
	} else {
		CHECK(pthread_create(&thread, NULL, report, NULL) == 0);
		OK(aclrtSubscribeReport_((uint64_t)thread, stream));
		OK(aclrtLaunchCallback_(crash, NULL, ACL_CALLBACK_BLOCK, stream));
	}
	OK(aclrtSynchronizeStream_(stream));
	CHECK(!"reached");
}

int main(int argc, char **argv)
{
	CHECK(argc == 4);
	path = argv[2];
	if (strcmp(argv[1], "setenv") == 0)
		mode_setenv();
	else if (strcmp(argv[1], "cancel") == 0)
		mode_cancel();
	else if (strcmp(argv[1], "keys") == 0)
		mode_keys();
	else if (strcmp(argv[1], "plugin") == 0)
		mode_plugin(argv[3]);
	else if (strcmp(argv[1], "crash") == 0)
		mode_crash(argv[3]);
	else
		CHECK(!"a mode");
	return 0;
}
