/* What the core and the process that runs kernels say to each other (capi/kernelhost). internal/kernel/native has the same layout. */
#ifndef ROPEWAY_SHIM_PROCESS_H
#define ROPEWAY_SHIM_PROCESS_H

#include <stdint.h>

/* What is asked for. The first ones are for the keeper, which forks; the last two for the processes that run kernels; MAP and UNMAP for both. */
enum {
	ROPEWAY_ASK_INIT = 1, /* a: bytes of the runs; files: theirs, and the process to end with */
	ROPEWAY_ASK_MAP,      /* a: address, b: bytes, c: offset in the file, d: whether something of ours is there. No file: nothing is to be there */
	ROPEWAY_ASK_UNMAP,    /* a: address, b: bytes */
	ROPEWAY_ASK_LOAD,     /* text: a name for /proc/self that was not used before; file: the object. Result: its handle, then its data */
	ROPEWAY_ASK_SYMBOL,   /* a: handle, text: name. Result: its address */
	ROPEWAY_ASK_CLOSE,    /* a: handle */
	ROPEWAY_ASK_FORK,     /* file: the socket of the new process. Result: its number */
	ROPEWAY_ASK_KILL,     /* a: its number */
	ROPEWAY_ASK_RUN,      /* a: which run, b: whether all calls are made at the same time. The answer comes when it is over */
	ROPEWAY_ASK_STOP,     /* a: which run */
};

enum { ROPEWAY_MOST_TEXT = 4352, ROPEWAY_MOST_DATA = 8, ROPEWAY_RUN_BYTES = 256 };

typedef struct ropeway_asked {
	uint64_t id, what, a, b, c, d;
	char text[ROPEWAY_MOST_TEXT]; /* as many bytes as the message has */
} ropeway_asked;

typedef struct ropeway_answer {
	uint64_t id; /* of what was asked; 0: the process with the number result has ended */
	int64_t error; /* an errno; 0: it was done */
	uint64_t result, count;
	uint64_t data[ROPEWAY_MOST_DATA][2]; /* where an object has its variables, and how many bytes; the files come with it */
	char text[512];                      /* why not, in words */
} ropeway_answer;

/* Starts the process that runs kernels, with one end of a socket. path: its program; "" is the one that belongs to this library. 0, or an errno. */
int ropeway_kernel_spawn(const char *path, int socket);

#endif
