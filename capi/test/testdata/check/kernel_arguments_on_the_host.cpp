/*
 * aclrtLaunchKernel takes arguments in device memory, and is given a structure on the host. It works here, and fails
 * on a device.
 *
 * finds: wrong-direction (error)
 * offence: submitted aclrtLaunchKernel in main at OFFENCE on stream 1, task 1
 */
#ifdef KERNELS
#include <ropeway/kernel.h>

extern "C" void clear(uint32_t *x, uint64_t n)
{
    for (uint64_t i = ropeway_block_idx(); i < n; i += ropeway_block_num())
        x[i] = 0;
}
#else
#include "kernel_file.h"

constexpr uint64_t kN = 1000, kSize = kN * sizeof(uint32_t);

int main(int, char **argv)
{
    aclrtStream stream = start();
    aclrtBinHandle binary;
    aclrtFuncHandle clear = kernel_of(argv, "clear", &binary);
    struct {
        void *x;
        uint64_t n;
    } args = {nullptr, kN};
    ACL(aclrtMalloc(&args.x, kSize, ACL_MEM_MALLOC_HUGE_FIRST));
#ifdef FIXED
    ACL(aclrtLaunchKernelWithHostArgs(clear, 1, stream, nullptr, &args, sizeof args, nullptr, 0));
#else
    ACL(aclrtLaunchKernel(clear, 1, &args, sizeof args, stream)); // OFFENCE
#endif
    ACL(aclrtSynchronizeStream(stream));
    ACL(aclrtFree(args.x));
    ACL(aclrtBinaryUnLoad(binary));
    finish(stream);
    return 0;
}
#endif
