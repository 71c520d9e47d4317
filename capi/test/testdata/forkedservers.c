/*
 * Two servers of a pod, of which one is killed while a child that it forked lives on, with all that it inherited: the owner of memory (owner), or
 * a process that has imported it (importer). The other one notices all the same. They meet by files in the directory argv[2].
 */
#include "servers.h"

#include <sys/wait.h>

static aclrtMemFabricHandle handle;

/* A child that does nothing until the other server has seen what it was to see. */
static void forks(void)
{
	if (fork() == 0) {
		hear("seen");
		_exit(0);
	}
}

static void begin(void)
{
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
}

static aclError import(aclrtDrvMemHandle *h)
{
	return aclrtMemImportFromShareableHandleV2(&handle, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, 0, h);
}

static void refused(void)
{
	aclrtDrvMemHandle h;
	WANT(import(&h), ACL_ERROR_RT_INVALID_HANDLE);
	const char *why = aclGetRecentErrMsg();
	if (why == NULL || strstr(why, "does not answer for") != NULL)
		FAIL("it had to wait: %s", why ? why : "");
}

static aclrtDrvMemHandle exports(void)
{
	aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}};
	aclrtDrvMemHandle h;
	OK(aclrtMallocPhysical(&h, SIZE, &prop, 0));
	OK(aclrtMemExportToShareableHandleV2(h, 1, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, &handle));
	put("handle", &handle, sizeof handle);
	return h;
}

static void owner_killed(int server)
{
	aclrtDrvMemHandle h;
	void *p;
	unsigned char byte;
	begin();
	if (server == 0) {
		exports();
		hear("imported");
		forks();
		say("forked");
		raise(SIGKILL);
	}
	get("handle", &handle, sizeof handle);
	OK(import(&h));
	OK(aclrtReserveMemAddress(&p, SIZE, 0, NULL, 0));
	OK(aclrtMapMem(p, SIZE, 0, h, 0));
	OK(aclrtMemcpy(&byte, 1, p, 1, ACL_MEMCPY_DEVICE_TO_HOST));
	say("imported");
	hear("forked");
	time_t until = time(NULL) + 120;
	aclError e;
	while ((e = aclrtMemcpy(&byte, 1, p, 1, ACL_MEMCPY_DEVICE_TO_HOST)) == ACL_SUCCESS)
		if (time(NULL) > until)
			FAIL("copies do not fail");
	WANT(e, ACL_ERROR_RT_LOST_HEARTBEAT);
	refused();
	say("seen");
}

static void importer_killed(int server)
{
	aclrtDrvMemHandle h;
	if (server == 0) {
		begin();
		h = exports();
		hear("imported");
		OK(aclrtFreePhysical(h));
		say("freed");
		hear("seen");
		return;
	}
	pid_t importer = fork();
	if (importer == 0) {
		begin();
		get("handle", &handle, sizeof handle);
		OK(import(&h));
		forks();
		say("imported");
		hear("freed");
		raise(SIGKILL);
	}
	waitpid(importer, NULL, 0);
	begin();
	get("handle", &handle, sizeof handle);
	time_t until = time(NULL) + 120;
	while (import(&h) == ACL_SUCCESS) { /* it can be imported as long as a process has it */
		OK(aclrtFreePhysical(h));
		if (time(NULL) > until)
			FAIL("the owner keeps the memory");
	}
	refused();
	say("seen");
}

int main(int argc, char **argv)
{
	const char *server = getenv("ROPEWAY_POD_SERVER");
	if (argc != 3 || server == NULL)
		FAIL("no scene, directory or server");
	dir = argv[2];
	(strcmp(argv[1], "owner") == 0 ? owner_killed : importer_killed)(atoi(server));
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
	return 0;
}
