/*
 * A vector is registered, its upload is queued, and the scope ends: its memory is freed under the copy.
 *
 * finds: free-in-flight (error)
 * offence: freed free in upload at OFFENCE
 * other: submitted aclrtMemcpyAsync in upload at SUBMIT on stream 1, task 1
 * other: allocated aclrtHostRegister in upload at ALLOCATED
 * bytes: 0+65536 of registered 65536
 */
#include "program.h"

#include <memory>
#include <vector>

static const size_t kSize = 65536, kPage = 4096;

static void *page_in(std::vector<char> &v)
{
	return reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(v.data()) + kPage - 1) / kPage * kPage);
}

static void upload(void *device, aclrtStream stream)
{
	std::unique_ptr<std::vector<char>> weights(new std::vector<char>(kSize + kPage, 1));
	void *host = page_in(*weights), *mapped;
	ACL(aclrtHostRegister(host, kSize, ACL_HOST_REGISTER_MAPPED, &mapped)); // ALLOCATED
	ACL(aclrtMemcpyAsync(device, kSize, host, kSize, ACL_MEMCPY_HOST_TO_DEVICE, stream)); // SUBMIT
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtHostUnregister(host));
#endif
	weights.reset(); // OFFENCE
}

int main()
{
	aclrtStream stream = start();
	void *device;
	ACL(aclrtMalloc(&device, kSize, ACL_MEM_MALLOC_HUGE_FIRST));
	upload(device, stream);
	std::vector<char> next(kSize, 2); // the allocator works as before
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFree(device));
	finish(stream);
	return next[0] == 2 ? 0 : 1;
}
