// Destructors of thread_local objects call the API when their thread ends.
#include <atomic>
#include <thread>

#include "robust.h"

static std::atomic<int> destroyed;

// Keeps the context its thread had, and finds it again when it is destroyed.
struct Guard {
	aclrtContext context = nullptr;
	~Guard()
	{
		aclrtContext now;
		OK(aclrtGetCurrentContext(&now));
		CHECK(now == context);
		copy_both_ways(5);
		destroyed++;
	}
};

static void use(unsigned seed)
{
	// Constructed before the first call of the thread: destroyed after everything that came later.
	static thread_local Guard before;
	before.context = nullptr;
	copy_both_ways(seed);
	static thread_local Guard after;
	OK(aclrtGetCurrentContext(&after.context));
	before.context = after.context;
}

// A destructor whose call is the only one its thread makes.
struct Late {
	int used = 0;
	~Late()
	{
		int32_t device;
		IS(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetDevice(&device));
		copy_both_ways(9);
		destroyed++;
	}
};

int main()
{
	OK(aclInit(nullptr));
	OK(aclrtSetDevice(0));
	for (unsigned i = 0; i < 300; i++) {
		std::thread([i] { use(i); }).join();
		std::thread([] {
			static thread_local Late late;
			late.used = 1;
		}).join();
	}
	CHECK(destroyed == 900);
}
