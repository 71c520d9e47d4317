/* The kernels of internal/driver/drivertest/kernels.go as CUDA C++, and one that uses dynamic shared memory. */
#include <cstdint>

extern "C" {

__device__ uint32_t scale = 3;

__global__ void sum(const uint32_t *x, const uint32_t *y, uint32_t *z, uint64_t n)
{
	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < n; i += (uint64_t)gridDim.x * blockDim.x)
		z[i] = x[i] + y[i];
}

__global__ void times(uint32_t *p, uint64_t n)
{
	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < n; i += (uint64_t)gridDim.x * blockDim.x)
		p[i] *= scale;
}

__global__ void follow(uint32_t **p)
{
	if (blockIdx.x == 0 && threadIdx.x == 0)
		**p += 1;
}

__global__ void nothing() {}
__global__ void wild(volatile uint32_t *p) { *p = 1; }
__global__ void trap() { asm volatile("trap;"); }

__global__ void place(uint32_t *p)
{
	uint32_t block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
	uint32_t thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
	uint32_t i = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
	p[i] = i;
}

/* As many threads as it says: a plain launch has 128 in a block. */
__global__ void __launch_bounds__(128) bounded(uint32_t *p)
{
	if (blockIdx.x == 0 && threadIdx.x == 0)
		*p = blockDim.x;
}

/* Each thread of a block sees what another one wrote to shared memory: p[i] = i of the block, from the other end. */
__global__ void turned(uint32_t *p)
{
	extern __shared__ uint32_t room[];
	room[threadIdx.x] = threadIdx.x;
	__syncthreads();
	p[blockIdx.x * blockDim.x + threadIdx.x] = room[blockDim.x - 1 - threadIdx.x];
}

}
