// The kernel of vector_add.cpp, for a CPU. extern "C": the program launches it by this name.
#include <ropeway/kernel.h>

extern "C" void vector_add(const float* x, const float* y, float* z, uint64_t n)
{
    for (uint64_t i = ropeway_block_idx(); i < n; i += ropeway_block_num())
        z[i] = x[i] + y[i];
}
