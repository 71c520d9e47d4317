/*
 * The entry point, and the records of threads.
 *
 * Ownership. check_core, check_kernel, check_home and the spans of text are set once, by the thread that attaches,
 * before any thread enters through the shim. A struct self belongs to its thread; when the thread ends it is kept in
 * `unused` for a later thread and is never unmapped, because the core may still read it.
 */
#define _GNU_SOURCE
#include "checker.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

ropeway_entry check_core;
ropeway_fault check_kernel;
pid_t check_home;
struct span check_core_text, check_shim_text, check_own_text, check_libc_text;

static _Thread_local struct self *self __attribute__((tls_model("initial-exec")));
static pthread_mutex_t naming = PTHREAD_MUTEX_INITIALIZER; /* guards the writing of names */
static struct self *unused;
static atomic_flag using = ATOMIC_FLAG_INIT; /* guards unused */
static ropeway_at_end at_end; /* set by attaching */
static pthread_key_t key; /* reports when a thread ends */
static int have_key;
static pthread_once_t introduced = PTHREAD_ONCE_INIT, excused = PTHREAD_ONCE_INIT;

/*
 * A lock for a few instructions. Not a mutex: an ending thread takes it after ThreadSanitizer, which intercepts
 * mutexes and munmap, has removed its own record of the thread.
 */
static void lock_unused(void)
{
	while (atomic_flag_test_and_set_explicit(&using, memory_order_acquire))
		syscall(SYS_sched_yield);
}

static void unlock_unused(void)
{
	atomic_flag_clear_explicit(&using, memory_order_release);
}

int check_forked(void)
{
	return getpid() != check_home;
}

struct self *check_self(void)
{
	if (LIKELY(self != NULL))
		return self;
	/* Not from `unused`: this may be a signal handler. */
	struct self *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s == MAP_FAILED)
		abort();
	s->call.function = ROPEWAY_NO_CALL;
	s->call.thread = (uint32_t)syscall(SYS_gettid);
	return self = s;
}

struct self *check_known(void)
{
	if (LIKELY(self && self->known))
		return self;
	if (!self) {
		lock_unused();
		struct self *s = unused;
		if (s)
			unused = s->next;
		unlock_unused();
		if (s) {
			struct self was = *s;
			memset(s, 0, sizeof *s);
			s->spare = was.spare;
			s->lent = was.lent;
			s->slot = was.slot;
			s->entered = 1; /* like its last owner, whose record the core may still have */
			s->call.function = ROPEWAY_NO_CALL;
			s->call.thread = (uint32_t)syscall(SYS_gettid);
			self = s;
		}
	}
	struct self *s = check_self();
	s->known = 1;
	if (have_key)
		pthread_setspecific(key, s);
	return s;
}

/* The destructor of key. Other destructors may call the API or touch memory, and the shim leaves in its second round. */
static void ends(void *object)
{
	struct self *s = object;
	if (++s->rounds < 4) {
		pthread_setspecific(key, s);
		return;
	}
	self = NULL;
	if (!s->entered) { /* the core does not know it */
		if (s->spare)
			syscall(SYS_munmap, s->spare, (size_t)CHECK_SPARE);
		syscall(SYS_munmap, s, sizeof *s); /* but not a signal stack, which is in use */
		return;
	}
	lock_unused();
	s->next = unused;
	unused = s;
	unlock_unused();
}

static const ropeway_checker checker_calls;

static const char *other_tool; /* a tool that handles signals itself; NULL: none. Set by preparing */

/* Makes the checker known to the core; without that the core closes no memory. */
static void introduce(void)
{
	uint64_t a[] = {(uintptr_t)&checker_calls};
	if (!other_tool)
		check_core(ROPEWAY_CHECKER, NULL, a);
}

static void excuse(void)
{
	char text[200];
	if (!other_tool)
		return;
	snprintf(text, sizeof text, "the program runs under %s: accesses of the host cannot be watched, and the sources of copies are compared with a snapshot instead",
		 other_tool);
	check_note(text);
}

static uint64_t enter(ropeway_thread thread, uint64_t *slots)
{
	pthread_once(&introduced, introduce);
	uint64_t entered = check_core(ROPEWAY_ENTER, thread, slots);
	if (entered) {
		struct self *me = check_known();
		uint64_t a[] = {(uintptr_t)&me->call};
		me->entered = 1;
		check_core(ROPEWAY_WATCH, (ropeway_thread)(uintptr_t)entered, a);
		pthread_once(&excused, excuse);
	}
	return entered;
}

/* Requests of the shim itself. */
static uint64_t asked(uint32_t function, ropeway_thread thread, uint64_t *slots)
{
	switch (function) {
	case ROPEWAY_ENTER:
		return enter(thread, slots);
	case ROPEWAY_IGNORE:
		check_known()->call.ignored += (uint32_t)slots[0];
		return 0;
	}
	return check_core(function, thread, slots);
}

/* The entry point in front of the core's. */
static uint64_t watched(uint32_t function, ropeway_thread thread, uint64_t *slots)
{
	if (function >= ROPEWAY_FUNCTIONS && function != ROPEWAY_WAIT)
		return asked(function, thread, slots);
	int error = errno;
	struct self *me = check_known();
	me->entered = 1;
	me->judged = me->asking = 0; /* the program may have jumped out of a system call, or of a step */
	if (UNLIKELY(me->steps))
		check_close_steps(me);
	ropeway_call *c = &me->call, outer;
	int nested = c->function != ROPEWAY_NO_CALL; /* in a callback */
	if (UNLIKELY(nested))
		outer = *c;
	c->slots = slots;
	c->depth = check_stack(c->stack, ROPEWAY_DEPTH);
	c->function = function;
	if (UNLIKELY(atomic_load_explicit(&check_some_registered, memory_order_relaxed)))
		check_left(me, (uintptr_t)__builtin_frame_address(0));
	errno = error;
	uint64_t result = check_core(function, thread, slots);
	if (UNLIKELY(nested)) {
		outer.ignored = c->ignored;
		*c = outer;
	} else {
		c->function = ROPEWAY_NO_CALL;
		c->slots = NULL;
	}
	if (UNLIKELY(!atomic_load_explicit(&check_filtered, memory_order_relaxed)) && check_any_spans())
		check_watch_system_calls();
	return result;
}

EXPORT void ropeway_check_prepare(void);
void ropeway_check_prepare(void)
{
	check_stack_prepare();
	check_signals_prepare();
	check_libc_prepare();
	check_vanish_prepare();
	const char *preloaded = getenv("LD_PRELOAD");
	if (dlsym(RTLD_DEFAULT, "__tsan_init"))
		other_tool = "ThreadSanitizer";
	else if (preloaded && strstr(preloaded, "/vgpreload"))
		other_tool = "valgrind";
}

/* In the child of a fork: locks that a thread of the parent may have held. */
static void in_child(void)
{
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
	unlock_unused();
	naming = fresh;
	check_signals_in_child();
}

EXPORT ropeway_entry ropeway_check_attach(ropeway_entry core, ropeway_at_end ask, ropeway_fault kernel);
ropeway_entry ropeway_check_attach(ropeway_entry core, ropeway_at_end ask, ropeway_fault kernel)
{
	check_shim_text = check_text_of(__builtin_return_address(0));
	check_core_text = check_text_of((void *)(uintptr_t)core);
	check_own_text = check_text_of((void *)(uintptr_t)watched);
	check_home = getpid();
	check_core = core;
	check_kernel = kernel;
	at_end = ask;
	have_key = pthread_key_create(&key, ends) == 0;
	pthread_atfork(NULL, NULL, in_child);
	if (!other_tool)
		check_take_signals();
	return watched;
}

/* The end of the process, after the program's own destructors: reports unfinished work. */
__attribute__((destructor)) static void ends_now(void)
{
	if (check_core && !check_forked())
		at_end(ROPEWAY_END);
}

void check_note(const char *text)
{
	uint64_t a[] = {(uintptr_t)text};
	check_core(ROPEWAY_NOTE, NULL, a);
}

/*
 * Frames of an interpreter. It names its functions once; then it gives the frames of a thread by numbers: before each
 * call in the thread's record, and for an access on request.
 */
struct name {
	char *file, *function;
};

enum { BLOCK = 1024, BLOCKS = 4096 };

static struct name *_Atomic names[BLOCKS]; /* written with `naming` held, like named */
static _Atomic uint32_t named;             /* names 1 to named exist */
static _Atomic(void (*)(ropeway_call *)) provider;

EXPORT int ropeway_check_on(void);
int ropeway_check_on(void)
{
	const char *wanted = secure_getenv("ROPEWAY_CHECK");
	return wanted && *wanted && strcmp(wanted, "0") != 0;
}

EXPORT ropeway_call *ropeway_check_record(void);
ropeway_call *ropeway_check_record(void)
{
	return &check_known()->call;
}

EXPORT void ropeway_check_frames_by(void (*frames)(ropeway_call *));
void ropeway_check_frames_by(void (*frames)(ropeway_call *))
{
	atomic_store(&provider, frames);
}

void check_frames(ropeway_call *call)
{
	void (*ask)(ropeway_call *) = atomic_load(&provider);
	if (ask)
		ask(call);
}

/* The number of a function of an interpreted program; 0 if there is no room for it. */
EXPORT uint32_t ropeway_check_name_frame(const char *file, const char *function);
uint32_t ropeway_check_name_frame(const char *file, const char *function)
{
	uint32_t number = 0;
	pthread_mutex_lock(&naming);
	uint32_t i = atomic_load(&named) + 1;
	if (i / BLOCK < BLOCKS && !names[i / BLOCK])
		atomic_store(&names[i / BLOCK], calloc(BLOCK, sizeof(struct name)));
	if (i / BLOCK < BLOCKS && names[i / BLOCK]) {
		struct name *n = &names[i / BLOCK][i % BLOCK];
		n->file = strdup(file ? file : "");
		n->function = strdup(function ? function : "");
		if (n->file && n->function)
			atomic_store(&named, number = i);
	}
	pthread_mutex_unlock(&naming);
	return number;
}

static const struct name *named_frame(uint32_t number)
{
	if (number == 0 || number > atomic_load(&named))
		return NULL;
	return &names[number / BLOCK][number % BLOCK];
}

const char *check_frame_file(uint32_t number)
{
	const struct name *n = named_frame(number);
	return n ? n->file : NULL;
}

const char *check_frame_function(uint32_t number)
{
	const struct name *n = named_frame(number);
	return n ? n->function : NULL;
}

/* The findings so far, a JSON array of finding.Finding; NULL if there is no core. */
EXPORT const char *ropeway_check_report(void);
const char *ropeway_check_report(void)
{
	if (!check_core || check_forked())
		return NULL;
	return (const char *)(uintptr_t)check_core(ROPEWAY_REPORT, NULL, NULL);
}

EXPORT void ropeway_check_free(const char *report);
void ropeway_check_free(const char *report)
{
	free((void *)(uintptr_t)report);
}

static const ropeway_checker checker_calls = {
	.spans = check_set_spans,
	.device = check_set_device,
	.registered = check_set_registered,
	.aliases = check_set_aliases,
	.pinned = check_set_pinned,
	.pages = check_set_pages,
	.file = check_frame_file,
	.name = check_frame_function,
};
