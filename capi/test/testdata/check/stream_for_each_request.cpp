/*
 * Each request makes a stream of its own and forgets it. A device has 1984 of them.
 *
 * finds: leak (error)
 * offence: made aclrtCreateStream in serve at ALLOCATED
 * count: 3
 */
#include "program.h"

static void serve(void *buffer)
{
    aclrtStream stream;
    ACL(aclrtCreateStream(&stream)); // ALLOCATED
    ACL(aclrtMemsetAsync(buffer, 64, 0, 64, stream));
    ACL(aclrtSynchronizeStream(stream));
#ifdef FIXED
    ACL(aclrtDestroyStream(stream));
#endif
}

int main()
{
    aclrtStream stream = start();
    void *buffer;
    ACL(aclrtMalloc(&buffer, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    for (int request = 0; request < 3; request++)
        serve(buffer);
    ACL(aclrtFree(buffer));
    finish(stream);
}
