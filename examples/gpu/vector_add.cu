/*
 * A kernel for the cuda driver. extern "C" keeps its name, by which the program finds it. A launch that says how many blocks there
 * are, and nothing of threads, has as many threads in each as __launch_bounds__ allows.
 */
#include <cstdint>

extern "C" __global__ void __launch_bounds__(256) add(const float *x, const float *y, float *z, uint64_t n)
{
	uint64_t step = (uint64_t)gridDim.x * blockDim.x;
	for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
		z[i] = x[i] + y[i];
}
