/*
 * libropeway_check.so: the C part of the checker. Its entry point is called instead of the core's and passes the
 * stack of each call to the core. It reports the program's accesses to closed memory to the core.
 *
 * Signal handlers do little: a fault is synchronous, so the handler redirects the interrupted thread to an ordinary
 * function on its own stack, which may do anything, and the thread returns to the interrupted code afterwards
 * (redirect.c).
 *
 *	attach.c     the entry point, the records of threads, the names of an interpreter's frames
 *	spans.c      the sets of watched addresses
 *	stack.c      the functions that led to a call or an access
 *	redirect.c   redirection from a signal handler to a function, on x86-64 and arm64
 *	fault.c      accesses to closed memory
 *	access.c     the number of bytes that an instruction accesses (x86-64)
 *	strings.c    rep movs and rep stos, which would trap for every element (x86-64)
 *	system.c     system calls on closed memory
 *	vectored.c   system calls with several buffers
 *	submitted.c  asynchronous I/O, for which the kernel accesses memory later
 *	vanish.c     registered memory that the program frees or unmaps
 *	handlers.c   the program's own handlers and masks
 *	fork.c       a child that uses the API after a fork
 */
#ifndef ROPEWAY_CHECKER_H
#define ROPEWAY_CHECKER_H

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "../shim/entry.h"

#define EXPORT __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* The most pages opened for one instruction: a gather of 16 elements, each across two pages. */
enum { STEPS = 32 };

enum { CHECK_SPARE = 256 << 10 }; /* size of a spare stack */

/* A range of addresses. */
struct span {
	uintptr_t low, high;
};

/* A thread of the program. Only the thread itself accesses it, except that the core reads call while the thread is in
 * the core. */
struct self {
	ropeway_call call;
	struct self *next;   /* next unused record */
	int known;           /* pthread reports the end of the thread */
	int entered;         /* it has called the API */
	int rounds;          /* rounds of destructors in the ending thread */
	void *spare;         /* a stack to use when the thread's own is full; NULL before it is needed */
	void *lent;          /* an alternate stack, after the program has removed its own; NULL before it is needed */
	uintptr_t low, high; /* the part of its stack known to be mapped */
	struct span stack;   /* all of its stack; both 0 before it is looked up, and equal if it is unknown */
	uintptr_t passed;    /* the next fault, at this address, is the program's own; 0 for none */
	uintptr_t waited;    /* where the core last faulted on closed memory */
	uintptr_t scanned[2]; /* first fault of a searching libc function in its current block; 0: none */
	int judged;          /* in a system call whose buffers have been reported to the core */
	int asking;          /* it is reporting an access to the core */
	int kernel;          /* the access is by a kernel */
	int traced;          /* it has been single-stepped at least once */
	uint32_t *slot;      /* arm64: memory for copies of single instructions; NULL before it is needed */
	uintptr_t left;      /* the original address of that instruction */
	uint32_t steps;      /* number of pages open for one instruction */
	ropeway_touch step[STEPS];
};

/* The record of the calling thread, made at its first call. Safe in a signal handler. Never NULL. */
struct self *check_self(void);
struct self *check_known(void); /* the same outside of signal handlers: it is freed when the thread ends */

/* attach.c. The core's entry point; NULL before it is attached. home is the process that has the core: a forked child
 * has none. */
extern ropeway_entry check_core;
extern ropeway_fault check_kernel; /* whether a fault is a kernel's */
extern pid_t check_home;
int check_forked(void);                 /* whether this is a child of the process that has the core */
void check_note(const char *text);      /* prints a limitation of the checker */
void check_frames(ropeway_call *call);  /* asks an interpreter for its frames */
const char *check_frame_file(uint32_t name); /* the texts of a frame's name; NULL if there is none */
const char *check_frame_function(uint32_t name);

/* stack.c. The code of the library that contains function; and the offset of an address in the file of its library. */
struct span check_text_of(const void *function);
int64_t check_file_offset(uintptr_t address); /* -1 if it is in none */
extern struct span check_core_text, check_shim_text, check_own_text, check_libc_text; /* set by attaching */
static inline int check_in(struct span s, uintptr_t address) { return address - s.low < s.high - s.low; }

/* spans.c. Whether an address, or a part of a range, is watched. Safe in a signal handler. */
int check_watched(uintptr_t address);
int check_watched_range(uintptr_t address, size_t length);
void check_set_spans(const uint64_t *pairs, size_t n);
int check_any_spans(void);
int check_device(uintptr_t address); /* whether it is device memory, which the host cannot access */
void check_set_device(uint64_t low, uint64_t high);
int check_pinned(uintptr_t address); /* whether it is in the range of pinned memory */
int check_fence(uintptr_t address); /* whether it is between allocations of pinned memory, where no page is opened */
uintptr_t check_fence_in(uintptr_t address, uintptr_t end); /* the first such address in the range; end if none */
void check_set_pinned(uint64_t low, uint64_t high);
void check_set_pages(uint64_t low, uint64_t high, int there);

/* Whether memory is registered, and whether a range has registered bytes. */
extern atomic_bool check_some_registered;
int check_registered_range(uintptr_t address, size_t length);
void check_set_registered(const uint64_t *pairs, size_t n);
void check_set_aliases(const uint64_t *pairs, size_t n);

/* stack.c. Finds the unwinder; then the return addresses of the caller's callers that are not ours, innermost first. */
void check_stack_prepare(void);
uint32_t check_stack(uint64_t *stack, uint32_t room);
int check_ours(uintptr_t address); /* whether a return address is in one of our libraries */

/*
 * redirect.c. To be called in a signal handler; returns only if there is no memory for a stack. The interrupted
 * thread continues in `function`, as if that were the handler, but on its own stack and not in a signal handler. When
 * the function returns, the thread continues with the state in context.
 */
typedef void (*handler)(int signal, siginfo_t *info, void *context);
int check_readable(uintptr_t page); /* whether a page is mapped */
int check_on_stack(const stack_t *stack, uintptr_t address); /* whether an address is on an alternate stack */
void check_redirect(int signal, siginfo_t *info, void *context, handler function);

/* fault.c */
void check_libc_prepare(void); /* finds the libc functions with special rules */
void check_on_fault(int signal, siginfo_t *info, void *context);
void check_on_trap(int signal, siginfo_t *info, void *context);

/* Describes an access of the calling thread outside the API: its stack, with instruction, if not 0, as the innermost
 * frame. */
void check_describe(ropeway_call *access, uintptr_t instruction);

/* Reports an access to the core; touch returns the memory it opened. Not from a signal handler. */
void check_touch(uintptr_t address, size_t length, int write, uintptr_t instruction, ropeway_touch *touch);
void check_stepped(const ropeway_touch *touch);
void check_close_steps(struct self *me); /* closes the memory open for an instruction of the calling thread */
int check_open_here(uintptr_t address, size_t length); /* opens memory without the core; 0 if it fails */

/* Memory opened for a system call. */
struct opened {
	uint32_t n;
	ropeway_touch part[STEPS];
	uintptr_t fence; /* where the first buffer that exceeds its allocation does so; 0: none does */
	size_t after;    /* bytes of that buffer from fence to its end */
	size_t reach;    /* bytes of all buffers before fence */
	int stores;      /* the kernel writes to the buffers */
	int probes;      /* the call may name unmapped memory without a finding */
	int refused;     /* buffers in device memory: only the first was reported to the core */
};

/* Opens a range for a system call, and returns whether the core opened any of it. check_close closes memory that need
 * not stay open. */
int check_open(uintptr_t address, size_t length, int write, struct opened *o);
void check_close(struct opened *o);
void check_ran_over(struct opened *o); /* reports that the kernel would write past the allocation */

/* access.c. The number of bytes, starting at address, that the instruction at ctx accesses at once; 0 if unknown. */
size_t check_access_size(const ucontext_t *ctx, uintptr_t address);

/* strings.c. A repeated string instruction in ascending order. */
struct repeat {
	size_t size;           /* of an element; 0: not such an instruction */
	size_t length;         /* of the instruction */
	int moves;             /* movs: it also reads */
	uintptr_t from, to;    /* current addresses */
	size_t left;           /* remaining elements */
};
struct repeat check_repeat(const ucontext_t *ctx);

/* Carries out the part of r that is in opened memory, and advances ctx. */
void check_repeat_part(const struct repeat *r, uintptr_t touched, const ropeway_touch *opened, ucontext_t *ctx);

/* system.c */
void check_on_system_call(int signal, siginfo_t *info, void *context);
void check_watch_system_calls(void); /* installs the filter. Not called from within the core, which it calls */
extern atomic_bool check_filtered;   /* that has been done, or tried */

/* vanish.c. Prepares the wrappers of allocators, including a sanitizer's. */
void check_vanish_prepare(void);
void check_left(struct self *me, uintptr_t frame); /* called in a function of the API: functions on the stack below frame have returned */

/* handlers.c. Takes over the signals the checker needs, and passes one to the program. */
void check_signals_prepare(void);
void check_signals_in_child(void); /* of a fork */
void check_take_signals(void);
void check_to_program(int signal, siginfo_t *info, void *context);

#endif
