/* The sentences of the documents that the project began with: spec/seeds.yaml names the tests. */
#ifndef SEEDS_H
#define SEEDS_H

#include "proof.h"

/* What the environment asks for. */
struct machine {
	const char *product;
	bool rc, strict;
	bool batch, desc;   /* it has them */
	bool oldest;        /* the product of the first document */
	bool no_host_kind;  /* A2 and A3 */
};
extern struct machine machine;

/* The code of a task that the device cannot make. */
enum { TASK_FAILS = ACL_ERROR_RT_SYS_DMA };

static inline int synchronise(void) { return aclrtSynchronizeStream(scene.stream); }

#endif
