/*
 * The arguments of the next step are given to a captured kernel while the step before may still have to run it: the host waits for the update alone.
 *
 * finds: stream-race (error)
 * offence: submitted aclmdlRIExecuteAsync in main at OFFENCE on stream 1, task 1
 * other: submitted aclrtLaunchKernelWithHostArgs in update at SUBMIT on stream 2, task 1
 * other: captured aclrtLaunchKernelWithHostArgs in main at CAPTURED
 */
#include "kernel.h"

constexpr size_t kSize = 4096;

static void update(aclrtTaskGrp group, aclrtFuncHandle kernel, add *args, aclrtStream stream)
{
    ACL(aclmdlRICaptureTaskUpdateBegin(stream, group));
    ACL(aclrtLaunchKernelWithHostArgs(kernel, 1, stream, nullptr, args, sizeof *args, nullptr, 0)); // SUBMIT
    ACL(aclmdlRICaptureTaskUpdateEnd(stream));
    ACL(aclrtSynchronizeStream(stream));
}

int main()
{
    aclrtStream stream = start(), updates;
    aclrtBinHandle binary;
    aclrtFuncHandle kernel = load_kernel(&binary);
    aclrtTaskGrp group;
    aclmdlRI step;
    void *sum, *rows;
    ACL(aclrtCreateStream(&updates));
    ACL(aclrtMalloc(&sum, kSize, ACL_MEM_MALLOC_HUGE_FIRST));
    ACL(aclrtMalloc(&rows, 2 * kSize, ACL_MEM_MALLOC_HUGE_FIRST));
    ACL(aclrtMemset(sum, kSize, 0, kSize));
    ACL(aclrtMemset(rows, 2 * kSize, 1, 2 * kSize));
    add args{static_cast<unsigned char *>(sum), static_cast<unsigned char *>(rows), kSize};

    ACL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    ACL(aclmdlRICaptureTaskGrpBegin(stream));
    ACL(aclrtLaunchKernelWithHostArgs(kernel, 1, stream, nullptr, &args, sizeof args, nullptr, 0)); // CAPTURED
    ACL(aclmdlRICaptureTaskGrpEnd(stream, &group));
    ACL(aclmdlRICaptureEnd(stream, &step));

    ACL(aclmdlRIExecuteAsync(step, stream)); // OFFENCE
#ifdef FIXED
    ACL(aclrtSynchronizeStream(stream));
#endif
    args.from += kSize;
    update(group, kernel, &args, updates);
    ACL(aclmdlRIExecuteAsync(step, stream));

    ACL(aclrtSynchronizeStream(stream));
    ACL(aclmdlRIDestroy(step));
    ACL(aclrtFree(rows));
    ACL(aclrtFree(sum));
    ACL(aclrtBinaryUnLoad(binary));
    ACL(aclrtDestroyStream(updates));
    finish(stream);
}
