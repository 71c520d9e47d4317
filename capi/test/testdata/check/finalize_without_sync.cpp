/*
 * aclFinalize comes while a host function is queued. Whether it is called is a matter of luck.
 *
 * finds: unsynchronised-exit (error)
 * offence: ended aclFinalize in main at OFFENCE
 * other: submitted aclrtLaunchHostFunc in main at SUBMIT on stream 0, task 1
 */
#include "program.h"

static void notify(void *count)
{
    ++*static_cast<int *>(count);
}

int main()
{
    static int count;
    ACL(aclInit(nullptr));
    ACL(aclrtSetDevice(0));
    ACL(aclrtLaunchHostFunc(nullptr, notify, &count)); // SUBMIT
#ifdef FIXED
    ACL(aclrtSynchronizeDevice());
#endif
    ACL(aclFinalize()); // OFFENCE
}
