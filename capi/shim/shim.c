/*
 * libascendcl.so: every function of the API, in front of a core that is loaded on first use.
 *
 * The core is a Go program, and a Go runtime neither survives fork without exec nor can be unloaded. So this library
 * stays small and plain C: it can be linked, opened, closed and forked at will until a program really calls it.
 *
 * Ownership. ropeway_core_entry is written once by the thread that holds `loading`, and once more in a forked child, which has
 * one thread. ropeway_self, ropeway_from, ending and interrupted belong to their thread. `started` is set before `loading` is taken, so a
 * child that inherits a locked `loading` also inherits `started`, is refused, and never waits for the lock. The core
 * is neither loaded nor called with `loading` held.
 */
#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "acl/acl.h"
#include "kernel.h"

_Atomic(ropeway_entry) ropeway_core_entry;
_Thread_local ropeway_thread ropeway_self __attribute__((tls_model("initial-exec")));
_Thread_local ropeway_site ropeway_from __attribute__((tls_model("initial-exec")));
atomic_int ropeway_recorded;

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool started;      /* the core is in this process, or may be about to be */
static char core_path[PATH_MAX]; /* path of the core, beside this library */
static char check_path[PATH_MAX]; /* path of the checker */
static pthread_key_t thread_key; /* its destructor informs the core that a thread ends */
static int have_key;             /* immutable after loading; without it the core keeps its records of ended threads */
static _Thread_local int ending; /* the thread is running its destructors */
/* exit() runs in a signal handler on this thread: the thread's value of ropeway_self before that. */
static _Thread_local ropeway_thread interrupted __attribute__((tls_model("initial-exec")));
static ropeway_forked forked;    /* of the checker; immutable after loading, NULL with checking off */

/*
 * Refusal: the result of every function if the core cannot be entered. The reason is printed once on stderr, and
 * aclGetRecentErrMsg returns it.
 */
static char reason[PATH_MAX + 512];
static atomic_bool reported;
static int refused_fork; /* the reason is a fork */

/* The number of the called API function, also for a wait that is made in slices. */
static uint32_t named(uint32_t function, const uint64_t *slots)
{
	static const uint32_t waits[] = {ROPEWAY_aclrtSynchronizeStream, ROPEWAY_aclrtSynchronizeEvent,
					 ROPEWAY_aclrtSynchronizeDevice, ROPEWAY_aclrtProcessReport};
	if (function == ROPEWAY_WAIT && slots[0] < sizeof waits / sizeof *waits)
		return waits[slots[0]];
	return function;
}

/* The name of a function for programs; NULL if programs do not call it. The functions of ropeway are not in the list;
 * both return a code. */
static const char *name_of(uint32_t function)
{
	if (function < ROPEWAY_FUNCTIONS)
		return ropeway_names[function].name;
	return function >= ROPEWAY_SYMBOL && function <= ROPEWAY_LOAD_FUNCTIONS ? "a function" : NULL;
}

/* The result of a refused function. Takes no lock, and may run in a signal handler. */
static uint64_t refusal(uint32_t function, const uint64_t *slots, const char *why, atomic_bool *reported)
{
	const char *name = name_of(function);
	if (!name)
		return 0;
	if (!atomic_exchange(reported, 1)) {
		struct iovec line[] = {
			{"ropeway: ", 9}, {(void *)name, strlen(name)}, {": ", 2}, {(void *)why, strlen(why)}, {"\n", 1},
		};
		if (writev(STDERR_FILENO, line, 5) < 0)
			atomic_store(reported, 0);
	}
	if (function == ROPEWAY_aclGetRecentErrMsg)
		return (uintptr_t)why;
	if (function == ROPEWAY_aclrtMemcpyBatch || function == ROPEWAY_aclrtMemcpyBatchAsync) {
		size_t *failIndex = (size_t *)(uintptr_t)slots[8];
		if (failIndex)
			*failIndex = SIZE_MAX; /* no copy was processed */
	}
	int coded = function >= ROPEWAY_FUNCTIONS || ropeway_names[function].returns_code;
	return coded ? (uint64_t)ACL_ERROR_INTERNAL_ERROR : 0;
}

static uint64_t refuse(uint32_t function, ropeway_thread thread, uint64_t *slots)
{
	(void)thread;
	function = named(function, slots);
	if (forked && refused_fork && name_of(function))
		forked(name_of(function));
	return refusal(function, slots, reason, &reported);
}

/* The same while resources for the core are lacking; the next call checks again. */
static _Atomic(const char *) lacking;

static uint64_t lack(uint32_t function, ropeway_thread thread, uint64_t *slots)
{
	static atomic_bool reported;
	(void)thread;
	return refusal(named(function, slots), slots, atomic_load(&lacking), &reported);
}

/* Runs in the child of a fork. The core's threads stayed in the parent. */
static void in_child(void)
{
	if (!atomic_load(&started) || atomic_load(&ropeway_core_entry) == refuse)
		return; /* it can still load the core, or already has the reason why not */
	strcpy(reason, "this process was forked from one that had already used AscendCL, so it has no runtime. "
		       "Fork before the first acl call, or start the child with exec or posix_spawn (Python: "
		       "multiprocessing with \"spawn\")");
	refused_fork = 1;
	atomic_store(&reported, 0);
	atomic_store(&ropeway_core_entry, refuse);
}

/* At the end of the process: returns once no copy is running, so that the program can free what it copied. */
static void quiet(void)
{
	ropeway_entry entry = atomic_load(&ropeway_core_entry);
	if (!entry || entry == refuse)
		return;
	ropeway_ask_at_end(ROPEWAY_QUIET);
	if (ropeway_self && ropeway_in_handler()) {
		interrupted = ropeway_self;
		ropeway_self = NULL;
	}
}

/* A call of a function that exit() runs in a signal handler: this thread may have been interrupted in a call. */
static uint64_t call_interrupted(uint32_t function, uint64_t *slots)
{
	static const char why[] = "exit() was called in a signal handler, and what that interrupted does not let this call go on";
	static atomic_bool reported;
	uint64_t result;
	if (ropeway_enter_at_end(atomic_load(&ropeway_core_entry), function, interrupted, slots, &result))
		return result;
	return refusal(named(function, slots), slots, why, &reported);
}

/* C++ calls these at thread exit; exit() runs those of its thread before anything registered with atexit. */
extern int __cxa_thread_atexit_impl(void (*destructor)(void *), void *object, void *dso);
extern void *__dso_handle __attribute__((visibility("hidden")));

static void quiet_first(void *unused)
{
	(void)unused;
	quiet();
}

/* The core and the checker found on disk. */
struct found {
	ropeway_entry entry;
	void *order;
	ropeway_attach attach; /* NULL with checking off */
	ropeway_forked forked;
	char why[sizeof reason]; /* why it cannot be used; "" if it can */
};

/* Finds the checker: preloaded, or beside this library. */
static void find_checker(struct found *f)
{
	int preloaded = dlsym(RTLD_DEFAULT, ROPEWAY_CHECK_ATTACH) != NULL;
	void *library = dlopen(preloaded ? NULL : check_path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!library) {
		snprintf(f->why, sizeof f->why, "ROPEWAY_CHECK is set, but the checker cannot be loaded: %s", dlerror());
		return;
	}
	ropeway_prepare prepare = (ropeway_prepare)(uintptr_t)dlsym(library, ROPEWAY_CHECK_PREPARE);
	f->attach = (ropeway_attach)(uintptr_t)dlsym(library, ROPEWAY_CHECK_ATTACH);
	f->forked = (ropeway_forked)(uintptr_t)dlsym(library, ROPEWAY_CHECK_FORKED);
	if (prepare && f->attach && f->forked)
		prepare();
	else
		snprintf(f->why, sizeof f->why, "%s is of another version than libascendcl.so; install both again", check_path);
}

/* Loads the core. Several threads may do so at the same time: a thread that holds the lock of the system's loader (a
 * plug-in whose constructor calls us) must not wait for a lock that we hold while we wait for the loader's. */
static void find_core(struct found *f)
{
	memset(f, 0, sizeof *f);
	void *core = dlopen(core_path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!core) {
		snprintf(f->why, sizeof f->why, "cannot load the core: %s. It must lie beside libascendcl.so", dlerror());
		return;
	}
	f->entry = (ropeway_entry)(uintptr_t)dlsym(core, ROPEWAY_ENTRY);
	f->order = dlsym(core, ROPEWAY_ORDER);
	if (!f->entry || f->entry(ROPEWAY_TABLE_OF_CORE, NULL, NULL) != ROPEWAY_TABLE)
		snprintf(f->why, sizeof f->why, "%s is of another version than libascendcl.so; install both again", core_path);
	else if (ropeway_checking_enabled())
		find_checker(f);
}

/* The software device is pure Go, in which no thread can be cancelled. Other drivers call their vendor's library on
 * the program's own threads: a thread cancelled there would leave locks held and unwind Go's stack. */
static ropeway_entry cancellable; /* immutable after loading */

static uint64_t uncancelled(uint32_t function, ropeway_thread thread, uint64_t *slots)
{
	int before;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	uint64_t result = cancellable(function, thread, slots);
	pthread_setcancelstate(before, NULL);
	return result;
}

/* Installs the core's entry point, or the reason for refusing. Runs once, with `loading` held. */
static ropeway_entry take_core(const struct found *f)
{
	if (*f->why) {
		strcpy(reason, f->why);
		return refuse;
	}
	ropeway_after_load();
	ropeway_prepare_end(f->entry);
	uint64_t kernels[] = {(uintptr_t)ropeway_kernel_run, (uintptr_t)ropeway_kernel_stop, (uintptr_t)ropeway_kernel_prepare,
			      (uintptr_t)ropeway_kernel_call, (uintptr_t)ropeway_kernel_watch};
	f->entry(ROPEWAY_KERNELS, NULL, kernels);
	atexit(quiet);
	at_quick_exit(quiet);
	forked = f->forked;
	ropeway_entry first = f->attach ? f->attach(f->entry, ropeway_ask_at_end, ropeway_kernel_fault) : f->entry;
	ropeway_entry entry = ropeway_ordered(first, f->order);
	const char *driver = ropeway_setting("ROPEWAY_DRIVER");
	if (!driver || !*driver || !strcasecmp(driver, "soft"))
		return entry;
	cancellable = entry;
	return uncancelled;
}

static ropeway_entry core_entry(void)
{
	static int prepared; /* guarded by loading */
	ropeway_entry entry = atomic_load(&ropeway_core_entry);
	if (entry)
		return entry;
	const char *lacks = ropeway_lacks_room();
	if (lacks) {
		atomic_store(&lacking, lacks);
		return lack;
	}
	atomic_store(&started, 1);
	pthread_mutex_lock(&loading);
	if (!prepared)
		ropeway_before_load();
	prepared = 1;
	pthread_mutex_unlock(&loading);

	struct found core;
	find_core(&core);

	pthread_mutex_lock(&loading);
	entry = atomic_load(&ropeway_core_entry);
	if (!entry) {
		entry = take_core(&core);
		atomic_store(&ropeway_core_entry, entry);
	}
	pthread_mutex_unlock(&loading);
	return entry;
}

/* Makes the calling thread known to the core. */
static void enter(ropeway_entry entry)
{
	long tid = syscall(SYS_gettid);
	int32_t recorded = 0;
	uint64_t self[] = {(uintptr_t)pthread_self(), (uint64_t)tid, (uintptr_t)&ropeway_from, (uintptr_t)&recorded};
	ropeway_self = (ropeway_thread)(uintptr_t)entry(ROPEWAY_ENTER, NULL, self);
	if (!ropeway_self)
		return;
	if (recorded)
		atomic_store(&ropeway_recorded, 1);
	/* The vendor's library is open now, and has its own exit handler: copies must be over before that runs. */
	static atomic_bool once;
	if (cancellable && !atomic_exchange(&once, 1))
		atexit(quiet);
	if (have_key)
		pthread_setspecific(thread_key, ending ? &ending : ropeway_self);
	if (tid == getpid())
		__cxa_thread_atexit_impl(quiet_first, NULL, &__dso_handle);
}

uint64_t ropeway_first_call(uint32_t function, uint64_t *slots)
{
	if (interrupted)
		return call_interrupted(function, slots);
	int error = errno, cancel;
	sigset_t all, mask;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* not while a lock is held */
	/* The core's threads inherit the current state: all signals blocked, since they are the program's, and the
	 * default floating-point state. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask);
	ropeway_floats program = floats_enter();
	if (atomic_load(&ropeway_core_entry) != refuse)
		ropeway_lend_stack();
	ropeway_entry entry = core_entry();
	if (entry != refuse && entry != lack) {
		enter(entry);
		ropeway_restore_mask(&mask);
	} else {
		pthread_sigmask(SIG_SETMASK, &mask, NULL);
	}
	pthread_setcancelstate(cancel, NULL);
	uint64_t result = entry(function, ropeway_self, slots);
	floats_leave(program);
	errno = error;
	return result;
}

/*
 * The destructor of thread_key. Destructors of other keys may still need their context: the first round only requests
 * a second one. A later call registers the thread again until the next round; the system makes four rounds.
 */
static void leave(void *round)
{
	if (round != &ending) {
		ending = 1;
		pthread_setspecific(thread_key, &ending);
		return;
	}
	ropeway_entry entry = atomic_load(&ropeway_core_entry);
	if (ropeway_self)
		entry(ROPEWAY_LEAVE, ropeway_self, NULL);
	ropeway_self = NULL;
	ropeway_stack_left();
}

/* The system's loader passes constructors the arguments of main. The initial environment follows argv. */
__attribute__((constructor)) static void prepare(int argc, char **argv)
{
	char library[PATH_MAX];
	Dl_info info;

	ropeway_secure(argv + argc + 1);
	have_key = pthread_key_create(&thread_key, leave) == 0;
	pthread_atfork(NULL, NULL, in_child);
	/* Now, because a relative path loses its meaning when the program changes its directory. */
	if (!dladdr((void *)(uintptr_t)prepare, &info) || !realpath(info.dli_fname, library))
		library[0] = 0;
	char *slash = strrchr(library, '/');
	int directory = slash ? (int)(slash - library + 1) : 0;
	snprintf(core_path, sizeof core_path, "%.*s%s", directory, library, ROPEWAY_CORE);
	snprintf(check_path, sizeof check_path, "%.*s%s", directory, library, ROPEWAY_CHECK_LIBRARY);
	ropeway_load_tool();
}

/* The only function with a variable number of arguments: the text is formatted here. */
EXPORT void aclAppLog(aclLogLevel logLevel, const char *func, const char *file, uint32_t line, const char *fmt, ...)
{
	char *text = NULL;
	if (fmt) {
		va_list args;
		va_start(args, fmt);
		if (vasprintf(&text, fmt, args) < 0)
			text = NULL;
		va_end(args);
	}
	uint64_t a[] = {(uint64_t)logLevel, (uintptr_t)func, (uintptr_t)file, line, (uintptr_t)text};
	call(ROPEWAY_aclAppLog, a);
	free(text);
}

/* Does nothing in the core. For benchmarks: the least cost of a call. */
EXPORT void ropeway_empty_call(void);
void ropeway_empty_call(void)
{
	call(ROPEWAY_EMPTY, NULL);
}

/*
 * aclrtSynchronizeStream, Event, Device, aclrtProcessReport (what is ROPEWAY_WAIT_…), for at most the given
 * milliseconds: *over reports whether the wait is over; then the result is that of the function. For callers that
 * check for signals in between; a timeout is not an error and is not recorded.
 */
EXPORT aclError ropeway_wait(int32_t what, void *handle, int32_t milliseconds, int32_t *over);
aclError ropeway_wait(int32_t what, void *handle, int32_t milliseconds, int32_t *over)
{
	*over = 1;
	uint64_t a[] = {(uint64_t)what, (uintptr_t)handle, (uint64_t)milliseconds, (uintptr_t)over};
	return (aclError)call(ROPEWAY_WAIT, a);
}

/* For interpreters that end: stops calls of a function, and returns the number of executions of models that may still
 * call functions. */
EXPORT void ropeway_retire(void *function);
void ropeway_retire(void *function)
{
	uint64_t a[] = {(uintptr_t)function};
	call(ROPEWAY_RETIRE, a);
}

EXPORT uint64_t ropeway_executions(void);
uint64_t ropeway_executions(void)
{
	return call(ROPEWAY_EXECUTIONS, NULL);
}

/* For interpreters, of a program that is recorded: the calling thread's call site, and a number for a function of
 * theirs. */
EXPORT ropeway_site *ropeway_site_of_thread(void);
ropeway_site *ropeway_site_of_thread(void)
{
	return &ropeway_from;
}

EXPORT uint32_t ropeway_name_frame(const char *file, const char *function);
uint32_t ropeway_name_frame(const char *file, const char *function)
{
	uint64_t a[] = {(uintptr_t)file, (uintptr_t)function};
	return (uint32_t)call(ROPEWAY_NAME_FRAME, a);
}
