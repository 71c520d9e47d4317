/*
 * A server makes the device ready and forks its workers. Every call of a worker fails.
 *
 * finds: fork-after-init (error)
 * offence: called aclrtSetDevice in worker at OFFENCE
 */
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

static int worker(void)
{
	aclrtSetDevice(0); // OFFENCE
	return 0;
}

int main(void)
{
	int status;
#ifdef FIXED
	if (fork() == 0)
		_exit(worker());
	aclrtStream stream = start();
#else
	aclrtStream stream = start();
	if (fork() == 0)
		_exit(worker());
#endif
	if (wait(&status) < 0 || status != 0)
		return 2;
	finish(stream);
	return 0;
}
