/* Declarations for the generated functions of the shim. */
#ifndef ROPEWAY_SHIM_H
#define ROPEWAY_SHIM_H

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "acl/acl_rt.h"
#include "entry.h"
#include "floats.h"

#define EXPORT __attribute__((visibility("default")))
#define WEAK __attribute__((weak))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define INLINE static inline __attribute__((always_inline, unused))

/* The name of a function, by number, and whether it returns an aclError. */
struct ropeway_name {
	const char *name;
	int returns_code;
};
extern const struct ropeway_name ropeway_names[ROPEWAY_FUNCTIONS];

/*
 * Hooks (hooks.c), by number. An exported function runs its hook if there is one. ropeway_originals are the functions
 * that do the work without calling hooks; NULL for a function that cannot be hooked.
 */
extern _Atomic(aclrtApiFunc) ropeway_hooks[ROPEWAY_FUNCTIONS];
extern const aclrtApiFunc ropeway_originals[ROPEWAY_FUNCTIONS];

/* The body of an exported function that can be hooked. */
#define HOOKABLE(f, ...) \
	__typeof__(&f) hook = (__typeof__(&f))(void (*)(void))atomic_load_explicit(&ropeway_hooks[ROPEWAY_##f], memory_order_acquire); \
	if (!LIKELY(!hook)) \
		return hook(__VA_ARGS__); \
	return do_##f(__VA_ARGS__)

/* The core's part of aclrtApiInjectionSetFunc and GetFunc, for calls that are wrong: it returns the code and keeps the message. */
aclError refuse_aclrtApiInjectionSetFunc(const char *name, aclrtApiFunc func);
aclError refuse_aclrtApiInjectionGetFunc(const char *name, aclrtApiFunc *originFunc, aclrtApiFunc *currentFunc);

/* Loads the tool that ACL_API_INJECTION names, if any. */
void ropeway_load_tool(void);

/* The core's entry point: NULL before the first call, then the core's entry, or a function that refuses (shim.c). */
extern _Atomic(ropeway_entry) ropeway_core_entry;

/* The calling thread's record in the core: NULL before its first call. */
extern _Thread_local ropeway_thread ropeway_self __attribute__((tls_model("initial-exec")));

/* The call site of the calling thread, and whether it is recorded. ropeway_recorded is set once, before the first
 * call. */
extern _Thread_local ropeway_site ropeway_from __attribute__((tls_model("initial-exec")));
extern atomic_int ropeway_recorded;

/* The value of an environment variable, NULL if it is not set or must be ignored (secure.c). */
const char *ropeway_setting(const char *name);

/* In such a program, removes variables that other libraries would read; first is the initial environment. */
void ropeway_secure(char **first);

/* Whether checking is enabled (checking.c). */
int ropeway_checking_enabled(void);

/* The first call of a thread: loads the core if necessary, and registers the thread with it. */
uint64_t ropeway_first_call(uint32_t function, uint64_t *slots);

/* The core's entry or, under ThreadSanitizer, one that reports the ordering of calls to it (order.c). */
ropeway_entry ropeway_ordered(ropeway_entry entry, void *object);

/* The same for code of the program that the core calls: acquire before it, release after it (order.c). */
void ropeway_take_over(void);
void ropeway_publish(void);

/* The name of a resource that is too scarce to load the core now; NULL if there is enough of all (room.c). */
const char *ropeway_lacks_room(void);

/* Around the loading of the core: the program's handlers stay in force (signals.c). */
void ropeway_before_load(void);
void ropeway_after_load(void);

/*
 * Handlers that run while a thread is in the core need an alternate stack: the core's own stacks are small. The
 * runtime adds SA_ONSTACK to the handlers that exist when it is loaded, except for job control; this does so for all,
 * and again when a thread makes its set-up calls.
 */
void ropeway_fix_handlers(void);

/*
 * After a thread's first call: the Go runtime unblocks signals in a thread that enters it, for as long as the thread
 * lives. All but those it cannot do without are blocked again if they were: a program that waits for SIGCHLD with sigwait
 * blocks it on purpose.
 */
void ropeway_restore_mask(sigset_t *was);

/*
 * Gives the calling thread an alternate stack if it has none. Called before its first call into the core, which would
 * give it a small one.
 */
void ropeway_lend_stack(void);

/* The calling thread ends: once it has gone, another thread may use its stack. */
void ropeway_stack_left(void);

/* Starts the thread that enters the core when the process ends (exit.c); entry is the core's own. */
void ropeway_prepare_end(ropeway_entry entry);

/* Makes a request without arguments to the core while the process ends; also in a signal handler. */
void ropeway_ask_at_end(uint32_t function);

/* Makes a call on that thread, for one that may have been interrupted in a call; 0 if the call does not end in time. */
int ropeway_enter_at_end(ropeway_entry entry, uint32_t function, ropeway_thread thread, uint64_t *slots, uint64_t *result);

/* Whether the calling thread is in a signal handler. A handler without SA_ONSTACK is not detected. */
int ropeway_in_handler(void);

/* Every function of the API calls this. It is inlined, so that it gets the return address of that function. */
INLINE uint64_t call(uint32_t function, uint64_t *slots)
{
	if (LIKELY(ropeway_self)) {
		if (!LIKELY(!atomic_load_explicit(&ropeway_recorded, memory_order_relaxed)))
			ropeway_from.address = (uintptr_t)__builtin_return_address(0);
		ropeway_entry entry = atomic_load_explicit(&ropeway_core_entry, memory_order_acquire);
		ropeway_floats program = floats_enter();
		uint64_t result = entry(function, ropeway_self, slots);
		floats_leave(program);
		return result;
	}
	ropeway_from.address = (uintptr_t)__builtin_return_address(0);
	return ropeway_first_call(function, slots);
}

/* Called before set-up calls, before which a program may have set handlers. */
__attribute__((unused)) static void fix_once(void)
{
	static _Thread_local int fixed __attribute__((tls_model("initial-exec")));
	if (ropeway_self && !fixed) {
		fixed = 1;
		ropeway_fix_handlers();
	}
}

INLINE uint64_t call_setup(uint32_t function, uint64_t *slots)
{
	fix_once();
	return call(function, slots);
}

static inline uint64_t float_bits(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}

static inline float bits_float(uint32_t u)
{
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}

#endif
