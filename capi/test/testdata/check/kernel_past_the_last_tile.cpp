/*
 * A kernel works in tiles, and the last one goes past the end of the memory. It says nothing; it is ended by the fault.
 *
 * finds: out-of-bounds (error)
 * offence: submitted aclrtLaunchKernelWithHostArgs in main at OFFENCE on stream 1, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 69632+1 of device 65536
 */
#ifdef KERNELS
#include <ropeway/kernel.h>

extern "C" void clear(char *p, uint64_t n, uint64_t tile)
{
#ifdef FIXED
    for (uint64_t at = 0; at < n; at += tile)
#else
    for (uint64_t at = 0; at <= n; at += tile)
#endif
        p[at + tile / 2] = 0;
}
#else
#include "kernel_file.h"

constexpr uint64_t kSize = 64 << 10, kTile = 8 << 10;

int main(int, char **argv)
{
    aclrtStream stream = start();
    aclrtBinHandle binary;
    aclrtFuncHandle clear = kernel_of(argv, "clear", &binary);
    struct {
        void *p;
        uint64_t n, tile;
    } args = {nullptr, kSize, kTile};
    ACL(aclrtMalloc(&args.p, kSize, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
    ACL(aclrtLaunchKernelWithHostArgs(clear, 1, stream, nullptr, &args, sizeof args, nullptr, 0)); // OFFENCE
    if (aclrtSynchronizeStream(stream) != ACL_SUCCESS)
        fprintf(stderr, "the memory is not cleared\n");
    ACL(aclrtFree(args.p));
    ACL(aclrtBinaryUnLoad(binary));
    finish(stream);
    return 0;
}
#endif
