/* Limits that leave too little for the core: calls fail and say why, and work as soon as there is room. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "robust.h"

static struct rlimit was;

static void limit(__rlimit_resource_t what, rlim_t n)
{
	CHECK(!getrlimit(what, &was));
	CHECK(!setrlimit(what, &(struct rlimit){n, was.rlim_max}));
}

static void refused(const char *says)
{
	for (int i = 0; i < 2; i++) {
		CHECK(aclInit(NULL) == ACL_ERROR_INTERNAL_ERROR);
		const char *text = aclGetRecentErrMsg();
		CHECK(text && strstr(text, says));
	}
	CHECK(aclrtSetDevice(0) == ACL_ERROR_INTERNAL_ERROR);
}

static void works(void)
{
	OK(aclInit(NULL));
	copy_both_ways(1);
}

/* With any number of descriptors left: too few, then enough to go on, if not to get a device. */
static void descriptors(void)
{
	int taken[64], n = 0;
	limit(RLIMIT_NOFILE, 64);
	while ((taken[n] = open("/dev/null", O_RDONLY)) >= 0)
		n++;
	for (int left = 0; left < 10; left++) {
		refused("ulimit -n");
		close(taken[--n]);
	}
	OK(aclInit(NULL)); /* exactly enough */
	while (n > 0)
		close(taken[--n]);
	copy_both_ways(1);
}

static void addresses(void)
{
	limit(RLIMIT_AS, (rlim_t)(proc_number("/proc/self/status", "VmSize") * 1024 + (100 << 20)));
	refused("ulimit -v");
	CHECK(!setrlimit(RLIMIT_AS, &was));
	works();
}

static void data(void)
{
	for (int mib = 0; mib <= 120; mib += 20) {
		limit(RLIMIT_DATA, (rlim_t)(proc_number("/proc/self/status", "VmData") * 1024 + (mib << 20)));
		refused("ulimit -d");
		CHECK(!setrlimit(RLIMIT_DATA, &was));
	}
	works();
}

/* The limit is the user's and root has none: another user, who may still read the library. */
static void another_user(void)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct sets[2] = {{0}};

	if (getuid())
		return;
	CHECK(!prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
	CHECK(!setresuid(54321, 54321, 54321));
	sets[0].effective = sets[0].permitted = 1 << CAP_DAC_READ_SEARCH;
	CHECK(!syscall(SYS_capset, &header, sets));
}

static void threads(void)
{
	another_user();
	for (rlim_t n = 1; n < 8; n++) {
		limit(RLIMIT_NPROC, n);
		refused("ulimit -u");
		CHECK(!setrlimit(RLIMIT_NPROC, &was));
	}
	works();
}

/* Memory has high numbers: a program that closes low ones which it does not know, and opens files, has none of it in their place. */
static void numbers(void)
{
	enum { high = 500, most = 1024 };
	void *host, *device;
	int found = 0;

	CHECK(!getrlimit(RLIMIT_NOFILE, &was));
	CHECK(was.rlim_max >= most && !setrlimit(RLIMIT_NOFILE, &(struct rlimit){most, was.rlim_max}));
	OK(aclrtSetDevice(0));
	OK(aclrtMallocHost(&host, 4096));
	OK(aclrtMalloc(&device, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
	for (int i = 0; i < most; i++) {
		char path[64], name[64] = "";
		snprintf(path, sizeof path, "/proc/self/fd/%d", i);
		if (readlink(path, name, sizeof name - 1) > 0 && strstr(name, "memfd:ropeway")) {
			CHECK(i >= high);
			found++;
		}
	}
	CHECK(found >= 2);
}

static const struct mode modes[] = {
	{"descriptors", descriptors}, {"addresses", addresses}, {"data", data}, {"threads", threads},
	{"numbers", numbers},
};

int main(int argc, char **argv)
{
	RUN_MODE(modes, argc, argv);
}
