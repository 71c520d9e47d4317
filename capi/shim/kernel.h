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

/* Makes calls until none is left, or the run has failed. */
int ropeway_kernel_run(ropeway_run *run);

/*
 * Calls a function of the program for a block, of which the functions of ropeway/kernel.h speak meanwhile. touches, most and touched as above;
 * returns what the function returns.
 */
int ropeway_kernel_call(const ropeway_function *f, const ropeway_block *block, ropeway_declared *touches, uint32_t most,
			uint32_t *touched);

/* Ends a run early: threads that are in its functions leave them. */
int ropeway_kernel_stop(ropeway_run *run);

/* Says, when the process ends by exit, that the kernel did it which the thread is in. */
void ropeway_kernel_exits(void);

/* Makes the functions of ropeway/kernel.h known to objects that are loaded from now on, and catches what kernels do. 0, or an errno. */
int ropeway_kernel_prepare(void);

#endif
