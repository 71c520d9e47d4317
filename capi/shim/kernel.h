/* How the core runs kernels: what it passes to the functions of kernel.c. internal/kernel/native has the same layout. */
#ifndef ROPEWAY_SHIM_KERNEL_H
#define ROPEWAY_SHIM_KERNEL_H

#include <stdatomic.h>
#include <stdint.h>

#include "ropeway/kernel.h"

enum { ROPEWAY_MOST_BLOCKS = 1024 }; /* that run at the same time */

/* Why a run ended early: run.failed. Other values are signals. */
enum { ROPEWAY_STOPPED = 256, ROPEWAY_BARRIER = 257, ROPEWAY_ENDED = 258, ROPEWAY_REFUSED = 259 };

/* One launch. Several threads are in ropeway_kernel_run with it at a time. */
typedef struct ropeway_run {
	uint64_t code[2];    /* the functions of its halves; 0: there is none */
	uint64_t args, size; /* where the arguments are */
	uint32_t blocks;
	uint32_t per[2]; /* calls of each half per block */
	uint32_t first;  /* number of the first block */
	uint32_t grid[3], threads[3]; /* SIMT; else 1 */
	uint32_t together; /* not 0: there is a thread for each call, and barriers work */

	/* The functions write what follows. */
	_Atomic uint32_t next;   /* call to be made next */
	_Atomic uint32_t failed; /* why it ended early; 0: it did not. Set once */
	uint32_t failed_block;
	uint64_t failed_address; /* of a memory fault, or what was returned */
	uint64_t failed_code;    /* where the code was */
	_Atomic uint32_t arrived, round; /* of the barrier */
	_Atomic uint32_t lock;           /* guards inside */
	uint32_t whole; /* the core writes it; not 0: functions take the address of the arguments alone, and fail if they do not return 0 */
	void *inside;                    /* threads that are in it */

	/* What ropeway_touches was called with; guarded by lock. */
	uint64_t touches;  /* where the list is; 0: nobody wants to know */
	uint32_t most;     /* how many it has room for */
	uint32_t touched;  /* how many there are; more than most: some were lost */
} ropeway_run;

/* An entry of that list. */
typedef struct ropeway_declared {
	uint64_t address, bytes, writes;
} ropeway_declared;

/* What one thread did of a run. internal/kernel has the same layout. */
typedef struct ropeway_share {
	uint32_t calls, first, last; /* how many; block of the first and of the last */
} ropeway_share;

/* Makes calls until none is left, or the run has failed, and notes in share, if it is not NULL, which. */
int ropeway_kernel_run(ropeway_run *run, ropeway_share *share);

/*
 * Calls a function of the program for a block, of which the functions of ropeway/kernel.h speak meanwhile. touches, most and touched as above;
 * returns what the function returns.
 */
int ropeway_kernel_call(const ropeway_function *f, const ropeway_block *block, ropeway_declared *touches, uint32_t most,
			uint32_t *touched);

/* Ends a run early: threads that are in its functions leave them. */
int ropeway_kernel_stop(ropeway_run *run);

/* Memory that kernels may touch: whole pages. first is how many pages the ranges before it have. */
typedef struct ropeway_range {
	uint64_t low, high, first;
} ropeway_range;

/* What was done to a page. A read is seen if no write came before it. */
enum { ROPEWAY_READ = 1, ROPEWAY_WRITTEN = 2 };

/* What is watched of kernels: see watch.c. */
typedef struct ropeway_watch {
	uint64_t ranges; /* where the list of them is, sorted */
	uint64_t pages;  /* where the states of all pages are, a byte each */
	uint64_t list;   /* where the numbers of touched pages go, uint32_t each */
	uint32_t count;  /* of ranges */
	uint32_t most;   /* how many numbers there is room for */
	_Atomic uint32_t touched; /* how many there are, or would be */
	_Atomic uint32_t lost;    /* not 0: everything was opened at some time, and what came later was not seen */
} ropeway_watch;

/* Begins to watch all kernels of the process, which run one at a time; NULL ends it. */
int ropeway_kernel_watch(ropeway_watch *w);

/* A fault of the calling thread, in its signal handler: 1 if the page is open now. */
int ropeway_watch_opens(uintptr_t address, int write);

/*
 * The same for kernels and other threads, with what the signal handler got: what a ropeway_fault of
 * entry.h returns. It does not return if the kernel has been stopped meanwhile.
 */
int ropeway_kernel_fault(uintptr_t address, int write, const void *context);

/* Makes the functions of ropeway/kernel.h known to objects that are loaded from now on, and catches what kernels do. 0, or an errno. */
int ropeway_kernel_prepare(void);

#endif
