// Destructors of static objects free registered buffers while copies into them are queued.
#include <ctime>
#include <memory>
#include <vector>

#include "robust.h"

static const size_t size = 8 << 20;

// A buffer that copies write, and whose destructor sees whether one still does.
struct Buffer {
	std::vector<unsigned char> memory = std::vector<unsigned char>(size);
	void *device = nullptr;
	void *ignored = nullptr;

	void queue()
	{
		aclrtStream s;
		OK(aclrtHostRegister(memory.data(), size, ACL_HOST_REGISTER_MAPPED, &ignored));
		OK(aclrtMalloc(&device, size, ACL_MEM_MALLOC_HUGE_FIRST));
		OK(aclrtCreateStream(&s));
		for (int i = 0; i < 16; i++)
			OK(aclrtMemcpyAsync(memory.data(), size, device, size, ACL_MEMCPY_DEVICE_TO_HOST, s));
	}

	~Buffer()
	{
		timespec moment = {0, 2000000};
		memory.assign(size, 0x22);
		nanosleep(&moment, nullptr);
		for (unsigned char b : memory)
			if (b != 0x22) {
				fprintf(stderr, "a copy still runs while static objects are destroyed\n");
				_exit(1);
			}
		OK(aclrtFree(device)); // the library still works
	}
};

static Buffer early; // before main, so before the first call

int main()
{
	static thread_local Buffer own; // destroyed before all others
	own.memory[0] = 1;
	OK(aclInit(nullptr));
	OK(aclrtSetDevice(0));
	static Buffer late; // after the first call
	early.queue();
	late.queue();
	own.queue();
}
