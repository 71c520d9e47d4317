/* The structs that the core passes to the functions of kernel.c. internal/kernel/native has the same layout. */
#ifndef ROPEWAY_SHIM_KERNEL_H
#define ROPEWAY_SHIM_KERNEL_H

#include <stdatomic.h>
#include <stdint.h>

#include "ropeway/kernel.h"

enum { ROPEWAY_MOST_BLOCKS = 1024 }; /* blocks that run at the same time */

/* Reasons in run.failed for the early end of a run. Other values are signals. */
enum { ROPEWAY_STOPPED = 256, ROPEWAY_BARRIER = 257, ROPEWAY_ENDED = 258, ROPEWAY_REFUSED = 259 };

/* One launch. Several threads are in ropeway_kernel_run with it at a time. */
typedef struct ropeway_run {
	uint64_t code[2];    /* the functions of its halves; 0: there is none */
	uint64_t args, size; /* address and size of the arguments */
	uint32_t blocks;
	uint32_t per[2]; /* calls of each half per block */
	uint32_t first;  /* number of the first block */
	uint32_t grid[3], threads[3]; /* SIMT; else 1 */
	uint32_t together; /* not 0: each call has a thread, and barriers work */

	/* The functions write the following fields. */
	_Atomic uint32_t next;   /* index of the next call */
	_Atomic uint32_t failed; /* reason of an early end; 0: none. Set once */
	uint32_t failed_block;
	uint64_t failed_address; /* address of a memory fault, or the result of the function */
	uint64_t failed_code;    /* address of the code */
	_Atomic uint32_t arrived, round; /* of the barrier */
	_Atomic uint32_t lock;           /* guards inside */
	uint32_t whole; /* the core writes it; not 0: functions take only the address of the arguments, and fail if they do not return 0 */
	void *inside;                    /* list of the threads in the run */

	/* The arguments of calls of ropeway_touches; guarded by lock. */
	uint64_t touches;  /* address of the list; 0: not recorded */
	uint32_t most;     /* capacity of the list */
	uint32_t touched;  /* number of calls; if more than most, some were not recorded */
} ropeway_run;

/* An entry of that list. */
typedef struct ropeway_declared {
	uint64_t address, bytes, writes;
} ropeway_declared;

/* The calls of a run that one thread made. internal/kernel has the same layout. */
typedef struct ropeway_share {
	uint32_t calls, first, last; /* number of calls; blocks of the first and the last call */
} ropeway_share;

/* Makes calls until none is left, or the run has failed, and records them in share, if it is not NULL. */
int ropeway_kernel_run(ropeway_run *run, ropeway_share *share);

/*
 * Calls a function of the program for a block, which the functions of ropeway/kernel.h describe during the call.
 * touches, most and touched are as above; returns the function's result.
 */
int ropeway_kernel_call(const ropeway_function *f, const ropeway_block *block, ropeway_declared *touches, uint32_t most,
			uint32_t *touched);

/* Ends a run early: threads leave the functions of the kernel. */
int ropeway_kernel_stop(ropeway_run *run);

/* Memory that kernels may access: whole pages. first is the number of pages in earlier ranges. */
typedef struct ropeway_range {
	uint64_t low, high, first;
} ropeway_range;

/* Accesses to a page. A read is recorded if no write came before it. */
enum { ROPEWAY_READ = 1, ROPEWAY_WRITTEN = 2 };

/* A watch of the pages that kernels access: see watch.c. */
typedef struct ropeway_watch {
	uint64_t ranges; /* address of the sorted list of ropeway_range */
	uint64_t pages;  /* address of the states of all pages, a byte each */
	uint64_t list;   /* address of the numbers of accessed pages, uint32_t each */
	uint32_t count;  /* number of ranges */
	uint32_t most;   /* capacity of list */
	_Atomic uint32_t touched; /* number of accessed pages, which may exceed most */
	_Atomic uint32_t lost;    /* not 0: all pages were opened, and later accesses were not recorded */
} ropeway_watch;

/* Starts watching all kernels of the process, which run one at a time; NULL ends it. */
int ropeway_kernel_watch(ropeway_watch *w);

/* A fault of the calling thread, in its signal handler: 1 if the page is open now. */
int ropeway_watch_opens(uintptr_t address, int write);

/*
 * The same for kernels and other threads, with the context of the signal handler; the result is that of a
 * ropeway_fault (entry.h). It does not return if the kernel was stopped.
 */
int ropeway_kernel_fault(uintptr_t address, int write, const void *context);

/* Makes the functions of ropeway/kernel.h visible to objects that are loaded later, and installs the handlers for
 * faults of kernels. 0, or an errno. */
int ropeway_kernel_prepare(void);

#endif
