/*
 * Correct programs that are hard to check: each mode touches host memory that is complete, or lies beside memory in flight,
 * in a way that goes through libc, a signal handler or a system call with several buffers. Modes that begin with "wrong" do
 * the same to memory in flight.
 */
#define _GNU_SOURCE
#include "check/program.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SIZE = 1 << 18, PIECE = 448 };

static aclrtStream stream;
static char *host;
static void *device;
static volatile long seen;

static void want(int true_now, const char *what)
{
	if (true_now)
		return;
	fprintf(stderr, "not so: %s (%s)\n", what, strerror(errno));
	exit(1);
}

static void down(char *to, size_t size)
{
	ACL(aclrtMemcpyAsync(to, size, device, size, ACL_MEMCPY_DEVICE_TO_HOST, stream));
}

static void up(void)
{
	ACL(aclrtMemcpyAsync(device, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
}

static void synchronise(void)
{
	ACL(aclrtSynchronizeStream(stream));
}

/* Memory of malloc begins in the middle of a page; libc's stdio makes its system calls right on it. */
static void registered(void)
{
	char *pinned = host, *room = malloc(SIZE + 128);
	void *alias;
	host = (char *)(((uintptr_t)room + 63) & ~(uintptr_t)63);
	host += (uintptr_t)host % 4096 ? 0 : 64;
	memset(host, 1, SIZE);
	ACL(aclrtHostRegister(host, SIZE, ACL_HOST_REGISTER_MAPPED, &alias));
	for (int i = 0; i < 2; i++) {
		FILE *file = tmpfile();
		want(file != NULL, "tmpfile");
		down(host, SIZE);
		synchronise();
		want(fwrite(host, 1, SIZE, file) == SIZE, "fwrite writes all");
		want(fflush(file) == 0, "fflush");
		up();
		synchronise();
		rewind(file);
		want(fread(host, 1, SIZE, file) == SIZE, "fread reads all");
		down(host, SIZE);
		synchronise();
		want(pwrite(fileno(file), host, SIZE, 0) == SIZE, "pwrite writes all");
		up();
		synchronise();
		want(pread(fileno(file), host, SIZE, 0) == SIZE, "pread reads all");
		fclose(file);
	}
	ACL(aclrtHostUnregister(host));
	free(room);
	host = pinned;
}

/* The usual mask of a handler blocks every signal, SIGSEGV too. */
static void look(int signal)
{
	(void)signal;
	for (int i = 0; i < SIZE; i += 64)
		seen += host[i];
	host[0] = 1;
}

static void masked(void)
{
	struct sigaction action = {.sa_handler = look, .sa_flags = SA_ONSTACK};
	sigfillset(&action.sa_mask);
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < 3; i++) {
		down(host, SIZE);
		synchronise();
		raise(SIGUSR1);
	}
}

/* A handler that comes while the thread is in the library looks at another buffer, which is complete and closed. */
static char *other;
static volatile sig_atomic_t ticks;

static void tick(int signal)
{
	(void)signal;
	seen += other[ticks++ % SIZE];
}

static void ticking(void)
{
	struct sigaction action = {.sa_handler = tick, .sa_flags = SA_ONSTACK | SA_RESTART};
	struct itimerval each = {{0, 300}, {0, 300}}, none = {{0, 0}, {0, 0}};
	ACL(aclrtMallocHost((void **)&other, SIZE));
	sigaction(SIGALRM, &action, NULL);
	for (int i = 0; i < 300; i++) {
		setitimer(ITIMER_REAL, &none, NULL);
		down(other, SIZE);
		synchronise();
		setitimer(ITIMER_REAL, &each, NULL);
		for (int j = 0; j < 5; j++) {
			down(host, SIZE);
			synchronise();
		}
	}
	setitimer(ITIMER_REAL, &none, NULL);
	ACL(aclrtFreeHost(other));
}

/* Through pointers, so that the compiler does not replace libc's function. */
static size_t (*volatile length)(const char *) = strlen;
static void *(*volatile find)(const void *, int, size_t) = memchr;
static int (*volatile compare)(const char *, const char *) = strcmp;
static void *(*volatile copy)(void *, const void *, size_t) = memcpy;

/* libc looks for the end of a text by blocks of vectors, and so at bytes past the end. */
static void beside(void)
{
	static char text[SIZE];
	for (int at = 64; at < 4096; at += 64) {
		memset(host, 'b', at - 1);
		host[at - 1] = 0;
		down(host + at, PIECE);
		want(length(host) == (size_t)at - 1, "strlen");
		want(find(host, 0, SIZE) == host + at - 1, "memchr");
		strcpy(text, host);
		want(compare(host, text) == 0, "strcmp");
		copy(text, host, (size_t)at);
		synchronise();
		memset(host, 0, 8192);
	}
}

static void several(void)
{
	int pair[2];
	struct iovec piece = {host + 100, 5000};
	struct mmsghdr message = {.msg_hdr = {.msg_iov = &piece, .msg_iovlen = 1}};
	FILE *file = tmpfile();
	want(file && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
	down(host, SIZE);
	synchronise();
	want(sendmmsg(pair[0], &message, 1, 0) == 1, "sendmmsg");
	up();
	synchronise();
	want(recvmmsg(pair[1], &message, 1, 0, NULL) == 1, "recvmmsg");
	down(host, SIZE);
	synchronise();
	want(pwritev2(fileno(file), &piece, 1, 0, 0) == 5000, "pwritev2");
	up();
	synchronise();
	want(preadv2(fileno(file), &piece, 1, 0, 0) == 5000, "preadv2");
	fclose(file);
}

/* The kernel comes to the memory by itself. */
static void submitted(void)
{
	aio_context_t context = 0;
	FILE *file = tmpfile();
	want(file && syscall(SYS_io_setup, 1, &context) == 0, "io_setup");
	for (int i = 0; i < 2; i++) {
		struct iocb write = {.aio_fildes = (uint32_t)fileno(file), .aio_lio_opcode = IOCB_CMD_PWRITE, .aio_buf = (uintptr_t)host, .aio_nbytes = SIZE};
		struct iocb *list[] = {&write};
		struct io_event event;
		down(host, SIZE);
		synchronise();
		want(syscall(SYS_io_submit, context, 1, list) == 1, "io_submit");
		want(syscall(SYS_io_getevents, context, 1, 1, &event, NULL) == 1 && event.res == SIZE, "all is written");
	}
	syscall(SYS_io_destroy, context);
	fclose(file);
}

static char *at;

static void wrong_length(void)
{
	seen += (long)length(host); /* ends right before */
	down(at, PIECE);
	seen += (long)length(at);
}

static void wrong_copy(void)
{
	char text[32];
	down(at, PIECE);
	copy(text, at - 16, sizeof text); /* the second half of one vector */
	seen += text[31];
}

static void wrong_stdio(void)
{
	FILE *file = tmpfile();
	down(host, SIZE);
	want(file && fwrite(host, 1, SIZE, file) == SIZE, "fwrite");
	fclose(file);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*function)(void);
	} modes[] = {
		{"registered", registered}, {"masked", masked}, {"ticking", ticking}, {"beside", beside}, {"several", several},
		{"submitted", submitted},
		{"wrong_length", wrong_length}, {"wrong_copy", wrong_copy}, {"wrong_stdio", wrong_stdio},
	};
	int found = 0;
	stream = start();
	ACL(aclrtMallocHost((void **)&host, SIZE));
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(device, SIZE, 0, SIZE));
	memset(host, 0, SIZE);
	at = host + 192;
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
		if (argc > 1 && !strcmp(argv[1], modes[i].name)) {
			modes[i].function();
			found = 1;
		}
	want(found, "there is such a mode");
	synchronise();
	ACL(aclrtFreeHost(host));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
