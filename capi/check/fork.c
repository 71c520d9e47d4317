/*
 * A forked child that uses the API. It has no core, so it reports by itself: the one finding it can have, as a line of JSON
 * (finding.Record) to the process that started the check, or as text to standard error.
 */
#define _GNU_SOURCE
#include "checker.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define RULE "fork-after-init"
#define SUMMARY "called in a forked child, whose parent had already used AscendCL: the child has no runtime"
#define ADVICE "Fork before the first acl call, or start the child with exec (Python: multiprocessing with \\\"spawn\\\")."

/* A text buffer. Text that does not fit is dropped. */
struct text {
	size_t n;
	char of[16 << 10];
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int n = vsnprintf(t->of + t->n, sizeof t->of - t->n, format, args);
	va_end(args);
	if (n > 0)
		t->n = t->n + (size_t)n < sizeof t->of ? t->n + (size_t)n : sizeof t->of - 1;
}

/* A string of JSON. */
static void quote(struct text *t, const char *s)
{
	add(t, "\"");
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;
		if (c == '"' || c == '\\')
			add(t, "\\%c", c);
		else if (c < 0x20)
			add(t, "\\u%04x", c);
		else
			add(t, "%c", c);
	}
	add(t, "\"");
}

/* Functions of the program: those of its interpreter if it reported frames, else those of the stack. */
static void frames(struct text *t, const uint64_t *stack, uint32_t depth)
{
	const ropeway_call *c = &check_self()->call;
	for (uint32_t i = 0; i < c->named && i < ROPEWAY_DEPTH; i++) {
		const char *file = check_frame_file(c->names[i].name), *function = check_frame_function(c->names[i].name);
		add(t, "%s{\"function\":", i ? "," : "");
		quote(t, function ? function : "");
		add(t, ",\"file\":");
		quote(t, file ? file : "");
		add(t, ",\"line\":%u}", c->names[i].line);
	}
	for (uint32_t i = 0; !c->named && i < depth; i++) {
		Dl_info info;
		int64_t offset = check_file_offset(stack[i] - 1);
		add(t, "%s{\"address\":%llu", i ? "," : "", (unsigned long long)stack[i]);
		if (dladdr((void *)(uintptr_t)(stack[i] - 1), &info)) {
			if (info.dli_sname) {
				add(t, ",\"function\":");
				quote(t, info.dli_sname);
			}
			if (info.dli_fname) {
				char path[PATH_MAX]; /* dli_fname of the program is the name it was started with */
				add(t, ",\"module\":");
				quote(t, realpath(info.dli_fname, path) ? path : info.dli_fname);
			}
		}
		if (offset >= 0) /* a reader can find the line in the file */
			add(t, ",\"offset\":%lld", (long long)offset + 1);
		add(t, "}");
	}
}

static void start(struct text *t)
{
	char line[4096];
	FILE *f = fopen("/proc/self/cmdline", "re");
	size_t n = f ? fread(line, 1, sizeof line - 1, f) : 0;
	if (f)
		fclose(f);
	line[n] = 0;
	add(t, "{\"start\":{\"process\":%d,\"command\":[", getpid());
	for (size_t i = 0; i < n; i += strlen(line + i) + 1) {
		add(t, "%s", i ? "," : "");
		quote(t, line + i);
	}
	add(t, "],\"seed\":0,\"depth\":0}}\n");
}

static int connected(const char *path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	if (!path || strlen(path) >= sizeof to.sun_path)
		return -1;
	strcpy(to.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static void send_all(int fd, const struct text *t)
{
	for (size_t done = 0; done < t->n;) {
		ssize_t n = send(fd, t->of + done, t->n - done, MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			return;
		if (n > 0)
			done += (size_t)n;
	}
}

static void report(const char *function, const uint64_t *stack, uint32_t depth)
{
	static struct text t; /* a child has one thread when it begins, and reports once */
	int fd = connected(secure_getenv("ROPEWAY_CHECK_REPORT"));
	if (fd < 0) {
		add(&t, "ropeway check: error: " RULE ": %s " SUMMARY "\n", function);
		for (uint32_t i = 0; i < depth; i++) {
			Dl_info info;
			int known = dladdr((void *)(uintptr_t)(stack[i] - 1), &info);
			add(&t, "    %s %s+0x%llx\n", known && info.dli_sname ? info.dli_sname : "?", known ? info.dli_fname : "?",
			    (unsigned long long)(stack[i] - (known ? (uintptr_t)info.dli_fbase : 0)));
		}
		if (syscall(SYS_write, STDERR_FILENO, t.of, t.n) < 0)
			return;
		return;
	}
	start(&t);
	add(&t, "{\"finding\":{\"rule\":\"" RULE "\",\"severity\":\"error\",\"summary\":\"%s " SUMMARY "\",", function);
	add(&t, "\"offence\":{\"role\":\"called\",\"call\":\"%s\",\"thread\":%ld,\"stack\":[", function, syscall(SYS_gettid));
	frames(&t, stack, depth);
	add(&t, "]},\"advice\":\"" ADVICE "\",\"seed\":0,\"process\":%d,\"count\":1}}\n", getpid());
	add(&t, "{\"end\":{\"counts\":[1],\"tasks\":0,\"calls\":0}}\n"); /* it has nothing more to report */
	send_all(fd, &t);
	close(fd);
}

EXPORT void ropeway_check_forked(const char *function);
void ropeway_check_forked(const char *function)
{
	static _Atomic pid_t reported; /* the child that has reported */
	int error = errno;
	pid_t me = getpid();
	if (atomic_exchange(&reported, me) != me) {
		uint64_t stack[ROPEWAY_DEPTH];
		report(function, stack, check_stack(stack, ROPEWAY_DEPTH));
	}
	errno = error;
}
