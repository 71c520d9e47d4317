/* The library opened and closed at will. This program is not linked with it; the second argument is its file. */
#define _GNU_SOURCE
#include <acl/acl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "modes.h"

static const char *file;

/* The functions of one opening of the library. */
struct library {
	void *handle;
	aclError (*init)(const char *);
	aclError (*finalize)(void);
	aclError (*set_device)(int32_t);
	aclError (*get_device)(int32_t *);
	aclError (*context)(aclrtContext *);
	aclError (*allocate)(void **, size_t, aclrtMemMallocPolicy);
	aclError (*copy)(void *, size_t, const void *, size_t, aclrtMemcpyKind);
	aclError (*release)(void *);
	const char *(*message)(void);
};

static void *symbol(void *handle, const char *name)
{
	void *p = dlsym(handle, name);

	if (!p) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return p;
}

static struct library open_library(const char *path, int flags)
{
	struct library l = {.handle = dlopen(path, flags)};

	if (!l.handle) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	*(void **)&l.init = symbol(l.handle, "aclInit");
	*(void **)&l.finalize = symbol(l.handle, "aclFinalize");
	*(void **)&l.set_device = symbol(l.handle, "aclrtSetDevice");
	*(void **)&l.get_device = symbol(l.handle, "aclrtGetDevice");
	*(void **)&l.context = symbol(l.handle, "aclrtGetCurrentContext");
	*(void **)&l.allocate = symbol(l.handle, "aclrtMalloc");
	*(void **)&l.copy = symbol(l.handle, "aclrtMemcpy");
	*(void **)&l.release = symbol(l.handle, "aclrtFree");
	*(void **)&l.message = symbol(l.handle, "aclGetRecentErrMsg");
	return l;
}

static void works(struct library l)
{
	char there[] = "ropeway", back[sizeof there] = "";
	void *device;

	OK(l.set_device(0));
	OK(l.allocate(&device, sizeof there, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(l.copy(device, sizeof there, there, sizeof there, ACL_MEMCPY_HOST_TO_DEVICE));
	OK(l.copy(back, sizeof back, device, sizeof back, ACL_MEMCPY_DEVICE_TO_HOST));
	CHECK(!strcmp(there, back));
	OK(l.release(device));
}

/* A thousand openings before the first call, a thousand after it. */
static void open_close(void)
{
	for (int i = 0; i < 1000; i++)
		CHECK(!dlclose(open_library(file, i % 2 ? RTLD_NOW | RTLD_LOCAL : RTLD_LAZY | RTLD_GLOBAL).handle));
	for (int i = 0; i < 1000; i++) {
		struct library l = open_library(file, i % 2 ? RTLD_NOW | RTLD_LOCAL : RTLD_LAZY | RTLD_GLOBAL);
		works(l);
		CHECK(!dlclose(l.handle));
	}
}

static void local(void)
{
	works(open_library(file, RTLD_NOW | RTLD_LOCAL));
	CHECK(!dlsym(RTLD_DEFAULT, "aclrtMemcpy"));
}

static void global(void)
{
	works(open_library(file, RTLD_NOW | RTLD_GLOBAL));
	CHECK(dlsym(RTLD_DEFAULT, "aclrtMemcpy"));
	CHECK(!dlsym(RTLD_DEFAULT, "ropeway_core_call")); /* the core shows the program nothing */
}

/* Closed and forked: the child is refused although the program has no handle left. */
static void closed_fork(void)
{
	int32_t device;
	int status;
	struct library l = open_library(file, RTLD_NOW | RTLD_LOCAL);

	works(l);
	CHECK(!dlclose(l.handle));
	pid_t child = fork();
	if (!child) {
		alarm(120);
		l = open_library(file, RTLD_NOW | RTLD_LOCAL);
		IS(ACL_ERROR_INTERNAL_ERROR, l.get_device(&device));
		CHECK(strstr(l.message(), "forked"));
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	works(open_library(file, RTLD_NOW | RTLD_LOCAL));
}

/* Opened and closed but never called: a child works. */
static void closed_unused_fork(void)
{
	int status;

	CHECK(!dlclose(open_library(file, RTLD_NOW | RTLD_LOCAL).handle));
	pid_t child = fork();
	if (!child) {
		alarm(120);
		works(open_library(file, RTLD_NOW | RTLD_LOCAL));
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	works(open_library(file, RTLD_NOW | RTLD_LOCAL));
}

/* All names are one library with one state. */
static void names(void)
{
	aclrtContext first, other;
	char path[4096];
	struct library l = open_library(file, RTLD_NOW | RTLD_LOCAL);
	char *also = getenv("NAMES"); /* of the library, with blanks between them */
	int n = 0;

	CHECK(also);
	works(l);
	OK(l.context(&first));
	for (char *name = strtok(also, " "); name; name = strtok(NULL, " "), n++) {
		snprintf(path, sizeof path, "%.*s%s", (int)(strrchr(file, '/') + 1 - file), file, name);
		struct library o = open_library(path, RTLD_NOW | RTLD_LOCAL);
		CHECK(o.handle == l.handle);
		OK(o.context(&other));
		CHECK(first == other);
	}
	CHECK(n >= 20);
}

/* A path that loses its meaning before the first call. */
static void moved(void)
{
	struct library l = open_library(file, RTLD_NOW | RTLD_LOCAL);

	CHECK(!chdir("/"));
	works(l);
}

static void init_finalize(void)
{
	struct library l = open_library(file, RTLD_NOW | RTLD_LOCAL);

	for (int i = 0; i < 1000; i++) {
		OK(l.init(NULL));
		works(l);
		OK(l.finalize());
	}
}

/* Whatever is wrong with the core, every call says so and none crashes. The text goes to the test. */
static void refused(void)
{
	struct library l = open_library(file, RTLD_NOW | RTLD_LOCAL);
	int32_t (*enable_peer)(uint32_t, uint32_t, uint32_t); /* of the older layer */
	int32_t device;

	*(void **)&enable_peer = symbol(l.handle, "rtEnableP2P");
	for (int i = 0; i < 3; i++) {
		IS(ACL_ERROR_INTERNAL_ERROR, l.init(NULL));
		IS(ACL_ERROR_INTERNAL_ERROR, l.get_device(&device));
		IS(ACL_ERROR_INTERNAL_ERROR, l.finalize());
		IS(ACL_ERROR_INTERNAL_ERROR, enable_peer(0, 1, 0));
	}
	CHECK(l.message());
	puts(l.message());
}

/* Keys of the program, one made before the library's own and one after it: their destructors still have the context. */
static struct library opened;
static pthread_key_t early, later;
static int destroyed;

static void at_end(void *context)
{
	aclrtContext now;

	OK(opened.context(&now));
	CHECK(now == context);
	works(opened);
	destroyed++;
}

static void *has_context(void *unused)
{
	aclrtContext context;

	OK(opened.set_device(0));
	OK(opened.context(&context));
	CHECK(!pthread_setspecific(early, context));
	CHECK(!pthread_setspecific(later, context));
	return unused;
}

static void keys(void)
{
	CHECK(!pthread_key_create(&early, at_end));
	opened = open_library(file, RTLD_NOW | RTLD_LOCAL);
	CHECK(!pthread_key_create(&later, at_end));
	for (int i = 0; i < 300; i++) {
		pthread_t t;
		CHECK(!pthread_create(&t, NULL, has_context, NULL));
		CHECK(!pthread_join(t, NULL));
	}
	CHECK(destroyed == 600);
}

/* The first calls of many threads at once: one load. */
static pthread_barrier_t start;

static void *first(void *unused)
{
	pthread_barrier_wait(&start);
	works(opened);
	return unused;
}

static void together(void)
{
	enum { n = 32 };
	pthread_t t[n];

	opened = open_library(file, RTLD_NOW | RTLD_LOCAL);
	pthread_barrier_init(&start, NULL, n);
	for (int i = 0; i < n; i++)
		CHECK(!pthread_create(&t[i], NULL, first, NULL));
	for (int i = 0; i < n; i++)
		CHECK(!pthread_join(t[i], NULL));
}

/* Opened by a thread that ends before the first call. */
static void *opens(void *unused)
{
	opened = open_library(file, RTLD_NOW | RTLD_LOCAL);
	return unused;
}

static void opened_elsewhere(void)
{
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, opens, NULL));
	CHECK(!pthread_join(t, NULL));
	works(opened);
}

static const struct mode modes[] = {
	{"open_close", open_close}, {"local", local}, {"global", global}, {"closed_fork", closed_fork},
	{"closed_unused_fork", closed_unused_fork}, {"names", names}, {"moved", moved}, {"init_finalize", init_finalize},
	{"refused", refused}, {"keys", keys}, {"together", together}, {"opened_elsewhere", opened_elsewhere},
};

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	file = argv[2];
	RUN_MODE(modes, argc, argv);
}
