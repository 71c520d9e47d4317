/*
 * A program opens the device, then becomes a daemon, which forks. The daemon has no device.
 *
 * finds: fork-after-init (error)
 * offence: called aclrtGetDevice in serve at OFFENCE
 */
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

static void serve()
{
    int32_t device;
#ifdef FIXED
    finish(start());
#endif
    aclrtGetDevice(&device); // OFFENCE
}

int main()
{
#ifndef FIXED
    aclrtStream stream = start();
#endif
    int status = 0;
    if (fork() == 0) { // as daemon does
        serve();
        _exit(0);
    }
    wait(&status);
#ifndef FIXED
    finish(stream);
#endif
    return status;
}
