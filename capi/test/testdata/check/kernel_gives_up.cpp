/*
 * A kernel stops itself, because it was given a shape that it does not know, and the program does not look at what the synchronisation
 * returned.
 *
 * finds: api-error (warning)
 * offence: called aclrtSynchronizeStream in main at OFFENCE
 * other: submitted aclrtLaunchKernelWithHostArgs in main at SUBMIT on stream 1, task 1
 */
#ifdef KERNELS
#include <ropeway/kernel.h>

#include <cstdlib>

extern "C" void softmax(float *x, uint64_t columns)
{
    if (columns % 16)
        abort();
    for (uint64_t i = 0; i < columns; i++)
        x[i] = 1.0f / static_cast<float>(columns);
}
#else
#include "kernel_file.h"

#ifdef FIXED
constexpr uint64_t kColumns = 1008;
#else
constexpr uint64_t kColumns = 1000;
#endif

int main(int, char **argv)
{
    aclrtStream stream = start();
    aclrtBinHandle binary;
    aclrtFuncHandle softmax = kernel_of(argv, "softmax", &binary);
    struct {
        void *x;
        uint64_t columns;
    } args = {nullptr, kColumns};
    ACL(aclrtMalloc(&args.x, kColumns * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
    ACL(aclrtLaunchKernelWithHostArgs(softmax, 1, stream, nullptr, &args, sizeof args, nullptr, 0)); // SUBMIT
    aclrtSynchronizeStream(stream); // OFFENCE
    ACL(aclrtFree(args.x));
    ACL(aclrtBinaryUnLoad(binary));
    finish(stream);
    return 0;
}
#endif
