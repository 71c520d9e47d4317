/* What the examples with two processes need: to start themselves a second time, with a pipe between the two. */
#ifndef PROCESS_H
#define PROCESS_H

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/*
 * Starts this program again, with one argument; *to is a pipe that the other one reads as its standard input. The other program
 * begins from nothing: a process that was only forked could not use AscendCL, which its parent has in use.
 */
static inline pid_t start(const char *self, const char *argument, FILE **to)
{
	int ends[2];
	expect(pipe(ends) == 0, "there is no pipe");
	fflush(NULL);
	pid_t other = fork();
	expect(other >= 0, "there is no second process");
	if (other == 0) {
		dup2(ends[0], STDIN_FILENO);
		close(ends[0]);
		close(ends[1]);
		execlp(self, self, argument, (char *)NULL);
		_exit(127);
	}
	close(ends[0]);
	*to = fdopen(ends[1], "w");
	expect(*to != NULL, "the pipe cannot be written");
	return other;
}

/* Waits for the other program; it must have succeeded. */
static inline void finish(pid_t other)
{
	int status;
	expect(waitpid(other, &status, 0) == other && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the other process failed");
}

#endif
