/* What the parts of the program that runs kernels have in common. */
#ifndef ROPEWAY_KERNELHOST_H
#define ROPEWAY_KERNELHOST_H

#include "../shim/kernel.h"
#include "../shim/process.h"

enum { MOST_FILES = 2 }; /* that come with a message */

/* A message, with the files that came with it. They are -1 where there is none, and the receiver's to close. */
typedef struct message {
	ropeway_asked asked;
	int files[MOST_FILES];
} message;

/* Waits for a message. 0 if the other end has gone. */
int receive(int socket, message *m);

/* Answers, with count files. Any thread may. */
void answer(int socket, const ropeway_answer *a, const int *files, int count);

/* Maps memory of a device, or takes it away; an errno or 0. */
int map(const message *m);
int unmap(const message *m);

/* Runs kernels until the other end of the socket has gone. */
_Noreturn void serve(int socket, char *runs, uint64_t bytes);

#endif
