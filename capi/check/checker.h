/*
 * libropeway_check.so: what the checker needs of C. It stands before the core's entry point and reports to the core from where a thread
 * calls, and it turns accesses of the program to closed memory into questions to the core.
 *
 * What happens in a signal handler is kept small: a fault is synchronous, so the interrupted thread is sent into an ordinary
 * function on its own stack, which may do anything a program may, and goes back afterwards (redirect.c).
 *
 *	attach.c     the entry point, the records of threads, the names of an interpreter's frames
 *	spans.c      which addresses are watched
 *	stack.c      the functions that led to a call or an access
 *	redirect.c   from a signal handler into a function, on x86-64 and arm64
 *	fault.c      an access to closed memory, and what becomes of it
 *	access.c     how many bytes an instruction touches (x86-64)
 *	strings.c    rep movs and rep stos, which would trap for every element (x86-64)
 *	system.c     system calls on closed memory
 *	vectored.c   those that take several pieces
 *	submitted.c  those after which the kernel touches memory by itself
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

/* A gather of 16 elements, each on the border of two pages, opens this many for one instruction. */
enum { STEPS = 32 };

enum { CHECK_SPARE = 256 << 10 }; /* size of a spare stack */

/* A range of addresses. */
struct span {
	uintptr_t low, high;
};

/* A thread of the program. Only the thread itself touches it, but the core reads call while the thread is inside. */
struct self {
	ropeway_call call;
	struct self *next;   /* of those that wait for a new thread */
	int known;           /* pthread reports the end of the thread */
	int entered;         /* it has called the API */
	int rounds;          /* of destructors that the ending thread has gone through */
	void *spare;         /* a stack for when the thread's own has no room; NULL before it is needed */
	void *lent;          /* an alternate stack, after the program took its own away; likewise */
	uintptr_t low, high; /* the part of its stack that was found to be there */
	struct span stack;   /* all of its stack; both 0 before that is asked for, and equal if it is not known */
	uintptr_t passed;    /* the next fault, at this address, is the program's own; 0 for none */
	uintptr_t waited;    /* where the core met closed memory last */
	uintptr_t scanned[2]; /* where a function of libc that looks for something met it first in its block; 0 for nowhere */
	int judged;          /* in a system call whose buffers the core has been asked about */
	int asking;          /* it is in the core, about an access */
	int kernel;          /* which a kernel makes */
	int traced;          /* it was stepped at least once */
	uint32_t *slot;      /* arm64: where it makes single instructions; NULL before it is needed */
	uintptr_t left;      /* and where that instruction really is */
	uint32_t steps;      /* what is open for one instruction */
	ropeway_touch step[STEPS];
};

/* The record of the calling thread, made at its first call. Safe in a signal handler. Never NULL. */
struct self *check_self(void);
struct self *check_known(void); /* the same outside of signal handlers: it is freed when the thread ends */

/* attach.c. The core's door; NULL before it is attached. home is the process it is in: a forked child has none. */
extern ropeway_entry check_core;
extern ropeway_fault check_kernel; /* whether a fault is a kernel's */
extern pid_t check_home;
int check_forked(void);                 /* whether this is a child of the process that has the core */
void check_note(const char *text);      /* prints what the checker cannot do */
void check_frames(ropeway_call *call);  /* asks an interpreter for its frames */
const char *check_frame_file(uint32_t name); /* the texts of a frame's name; NULL if there is none */
const char *check_frame_function(uint32_t name);

/* stack.c. The code of the library that function is in; and where an address lies in its library's file. */
struct span check_text_of(const void *function);
int64_t check_file_offset(uintptr_t address); /* -1 if it is in none */
extern struct span check_core_text, check_shim_text, check_own_text, check_libc_text; /* set by attaching */
static inline int check_in(struct span s, uintptr_t address) { return address - s.low < s.high - s.low; }

/* spans.c. Whether an address, or a part of a range, is watched. Safe in a signal handler. */
int check_watched(uintptr_t address);
int check_watched_range(uintptr_t address, size_t length);
void check_set_spans(const uint64_t *pairs, size_t n);
int check_any_spans(void);
int check_device(uintptr_t address); /* whether it is of a device, which the host cannot touch */
void check_set_device(uint64_t low, uint64_t high);
int check_pinned(uintptr_t address); /* whether pinned memory lies there, or could */
int check_fence(uintptr_t address); /* whether it is between allocations of pinned memory, where nothing is opened */
uintptr_t check_fence_in(uintptr_t address, uintptr_t end); /* the first such address from there on; end if there is none */
void check_set_pinned(uint64_t low, uint64_t high);
void check_set_pages(uint64_t low, uint64_t high, int there);

/* And which memory of the program is registered; and what else the host cannot touch: see check_device. */
extern atomic_bool check_some_registered;
int check_registered_range(uintptr_t address, size_t length);
void check_set_registered(const uint64_t *pairs, size_t n);
void check_set_aliases(const uint64_t *pairs, size_t n);

/* stack.c. Finds the unwinder; then the return addresses of the caller's callers that are not ours, innermost first. */
void check_stack_prepare(void);
uint32_t check_stack(uint64_t *stack, uint32_t room);
int check_ours(uintptr_t address); /* whether a return address is in one of our libraries */

/*
 * redirect.c. To be called in a signal handler; returns only if there is no memory for a stack. The interrupted thread goes on
 * in `function`, as if that were the handler, but on its own stack and outside of any signal. When the function returns, the
 * thread is back where it was, in the state that context then says.
 */
typedef void (*handler)(int signal, siginfo_t *info, void *context);
int check_readable(uintptr_t page); /* whether a page is there */
int check_on_stack(const stack_t *stack, uintptr_t address); /* whether an address is on an alternate stack */
void check_redirect(int signal, siginfo_t *info, void *context, handler function);

/* fault.c */
void check_libc_prepare(void); /* finds the functions of libc that are judged otherwise */
void check_on_fault(int signal, siginfo_t *info, void *context);
void check_on_trap(int signal, siginfo_t *info, void *context);

/* What the calling thread does now, outside of the API: its stack, which instruction (if not 0) is the innermost of. */
void check_describe(ropeway_call *access, uintptr_t instruction);

/* Asks the core about an access; touch says what it did. Not from a signal handler. */
void check_touch(uintptr_t address, size_t length, int write, uintptr_t instruction, ropeway_touch *touch);
void check_stepped(const ropeway_touch *touch);
void check_close_steps(struct self *me); /* what is open for an instruction of the calling thread */
int check_open_here(uintptr_t address, size_t length); /* opens memory without the core; 0 if it cannot */

/* What was opened for a system call. */
struct opened {
	uint32_t n;
	ropeway_touch part[STEPS];
	uintptr_t fence; /* where the first buffer leaves pinned memory that leaves it; 0: none does */
	size_t after;    /* how many bytes of that buffer are from there on */
	size_t reach;    /* how many bytes of all buffers are before that */
	int stores;      /* the kernel writes there */
	int probes;      /* the call may ask for what is not there: that is no finding */
	int refused;     /* pieces in memory of a device: the core has been asked about the first */
};

/* Opens a range for a system call; whether any of it was the core's to open. Then closes what is not to stay open. */
int check_open(uintptr_t address, size_t length, int write, struct opened *o);
void check_close(struct opened *o);
void check_ran_over(struct opened *o); /* the kernel was to write more than there is room for */

/* access.c. How many bytes, from address on, the instruction that ctx is at touches at once; 0 where that is not known. */
size_t check_access_size(const ucontext_t *ctx, uintptr_t address);

/* strings.c. A repeated string instruction that goes upwards. */
struct repeat {
	size_t size;           /* of an element; 0: it is none */
	size_t length;         /* of the instruction */
	int moves;             /* movs: it reads too */
	uintptr_t from, to;    /* where it is */
	size_t left;           /* elements still to go */
};
struct repeat check_repeat(const ucontext_t *ctx);

/* Carries out the part of r that lies in opened memory, and moves ctx on. */
void check_repeat_part(const struct repeat *r, uintptr_t touched, const ropeway_touch *opened, ucontext_t *ctx);

/* system.c */
void check_on_system_call(int signal, siginfo_t *info, void *context);
void check_watch_system_calls(void); /* from now on. Not from within the core: it is asked */
extern atomic_bool check_filtered;   /* that has been done, or tried */

/* vanish.c. Watches the allocator of a sanitizer too, if there is one. */
void check_vanish_prepare(void);
void check_left(struct self *me, uintptr_t frame); /* in a call of the API: functions on the stack below frame have returned */

/* handlers.c. Takes the signals the checker needs, and hands one to the program. */
void check_signals_prepare(void);
void check_signals_in_child(void); /* of a fork */
void check_take_signals(void);
void check_to_program(int signal, siginfo_t *info, void *context);

#endif
