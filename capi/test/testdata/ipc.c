/*
 * Memory shared between processes, through the library. The program starts itself again by fork and exec, and both talk over pipes: a
 * line each. The parent exports, the child imports, or the other way round.
 */
#define _GNU_SOURCE
#include <acl/acl.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { BYTES = 4 << 20, KEY = 65 };

static char *self;

/* other is the process at the other end of two pipes. */
struct other {
	pid_t pid;
	FILE *to, *from;
};

/* Starts this program again in a mode, by fork and exec. */
static struct other start(const char *mode)
{
	int down[2], up[2];
	struct other o;

	CHECK(pipe(down) == 0 && pipe(up) == 0);
	o.pid = fork();
	CHECK(o.pid >= 0);
	if (o.pid == 0) {
		CHECK(dup2(down[0], 0) == 0 && dup2(up[1], 1) == 1);
		close(down[0]), close(down[1]), close(up[0]), close(up[1]);
		alarm(120);
		execl(self, self, mode, NULL);
		_exit(127);
	}
	close(down[0]), close(up[1]);
	o.to = fdopen(down[1], "w");
	o.from = fdopen(up[0], "r");
	CHECK(o.to && o.from);
	return o;
}

static void send_line(FILE *to, const char *line)
{
	CHECK(fprintf(to, "%s\n", line) > 0 && fflush(to) == 0);
}

static void hear(FILE *from, char line[256])
{
	CHECK(fgets(line, 256, from));
	line[strcspn(line, "\n")] = 0;
}

static void hears(FILE *from, const char *want)
{
	char line[256];

	hear(from, line);
	if (strcmp(line, want) != 0) {
		fprintf(stderr, "heard \"%s\", want \"%s\"\n", line, want);
		exit(1);
	}
}

static void ends(struct other *o, int sig)
{
	int status;

	fclose(o->to);
	CHECK(waitpid(o->pid, &status, 0) == o->pid);
	CHECK(sig ? WIFSIGNALED(status) && WTERMSIG(status) == sig : WIFEXITED(status) && WEXITSTATUS(status) == 0);
	fclose(o->from);
}

static void *memory(void)
{
	void *p;

	OK(aclrtMalloc(&p, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
	return p;
}

static void fill(void *p, size_t offset, size_t n, int value)
{
	OK(aclrtMemset((char *)p + offset, n, value, n));
}

static void holds(void *p, size_t offset, size_t n, int value)
{
	unsigned char *b = malloc(n);

	OK(aclrtMemcpy(b, n, (char *)p + offset, n, ACL_MEMCPY_DEVICE_TO_HOST));
	for (size_t i = 0; i < n; i++)
		CHECK(b[i] == value);
	free(b);
}

/* The last error text says each word. */
static void expect_in_line(const char *word)
{
	const char *text = aclGetRecentErrMsg();

	if (!text || !strstr(text, word)) {
		fprintf(stderr, "\"%s\" does not say \"%s\"\n", text ? text : "", word);
		exit(1);
	}
}

static void begin(void)
{
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
}

static void finish(void)
{
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
}

/* --- The parent exports --- */

static void importer(void)
{
	char key[256], line[64];
	int32_t pid;
	void *p, *q;
	aclrtStream s;

	begin();
	OK(aclrtDeviceGetBareTgid(&pid));
	snprintf(line, sizeof line, "%d", pid);
	send_line(stdout, line);
	hear(stdin, key);
	IS(ACL_ERROR_RT_DRV_INTERNAL_ERROR, aclrtIpcMemImportByKey(&p, key, ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT));
	expect_in_line("aclrtIpcMemSetImportPid");
	send_line(stdout, "refused");
	hears(stdin, "named");
	OK(aclrtIpcMemImportByKey(&p, key, ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT));
	OK(aclrtIpcMemImportByKey(&q, key, ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS));
	CHECK(p == q); /* it is there until it is closed twice */
	holds(p, 0, BYTES, 1);
	OK(aclrtCreateStream(&s));
	OK(aclrtMemsetAsync((char *)p + 4096, 100, 2, 100, s)); /* in a stream of this process */
	OK(aclrtSynchronizeStream(s));
	holds(q, 4096, 100, 2);
	send_line(stdout, "written");
	hears(stdin, "written");
	holds(q, 8192, 100, 3);
	IS(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(p));
	expect_in_line("aclrtIpcMemClose");
	OK(aclrtIpcMemClose(key));
	OK(aclrtIpcMemClose(key));
	IS(ACL_ERROR_RT_PARAM_INVALID, aclrtIpcMemClose(key));
	send_line(stdout, "closed");
	hears(stdin, "withdrawn");
	IS(ACL_ERROR_RT_DRV_INTERNAL_ERROR, aclrtIpcMemImportByKey(&p, key, 0));
	send_line(stdout, "gone");
	finish();
}

static void exporter(void)
{
	struct other o = start("importer"); /* before the first call: a child forked later would be refused, but exec makes it a new process anyway */
	char key[KEY], line[256];
	void *p;
	int32_t pid;

	begin();
	p = memory();
	fill(p, 0, BYTES, 1);
	OK(aclrtIpcMemGetExportKey(p, BYTES, key, sizeof key, ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT));
	CHECK(memchr(key, 0, sizeof key));
	hear(o.from, line);
	pid = atoi(line);
	CHECK(pid == o.pid);
	send_line(o.to, key);
	hears(o.from, "refused");
	OK(aclrtIpcMemSetImportPid(key, &pid, 1));
	send_line(o.to, "named");
	hears(o.from, "written");
	holds(p, 4096, 100, 2);
	fill(p, 8192, 100, 3);
	send_line(o.to, "written");
	hears(o.from, "closed");
	OK(aclrtIpcMemClose(key));
	send_line(o.to, "withdrawn");
	hears(o.from, "gone");
	ends(&o, 0);
	OK(aclrtFree(p));
	finish();
}

/* --- The child exports, and dies --- */

static void victim(void)
{
	char key[KEY];
	void *p;

	begin();
	p = memory();
	fill(p, 0, BYTES, 5);
	OK(aclrtIpcMemGetExportKey(p, BYTES, key, sizeof key, ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
	send_line(stdout, key);
	pause();
}

static void survivor(void)
{
	struct other o;
	char key[256];
	void *p, *q;

	begin();
	o = start("victim"); /* after the first call: exec makes it a new process */
	hear(o.from, key);
	OK(aclrtIpcMemImportByKey(&p, key, 0));
	holds(p, 0, BYTES, 5);
	CHECK(kill(o.pid, SIGKILL) == 0);
	ends(&o, SIGKILL);
	holds(p, 0, BYTES, 5); /* what it has stays */
	fill(p, 0, 100, 6);
	holds(p, 0, 100, 6);
	IS(ACL_ERROR_RT_DRV_INTERNAL_ERROR, aclrtIpcMemImportByKey(&q, key, 0));
	expect_in_line("has ended");
	OK(aclrtIpcMemClose(key));
	IS(ACL_ERROR_RT_PARAM_INVALID, aclrtMemset(p, 10, 0, 10));
	finish();
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	self = argv[0];
	if (strcmp(argv[1], "importer") == 0)
		importer();
	else if (strcmp(argv[1], "exporter") == 0)
		exporter();
	else if (strcmp(argv[1], "victim") == 0)
		victim();
	else if (strcmp(argv[1], "survivor") == 0)
		survivor();
	else
		return 2;
	return 0;
}
