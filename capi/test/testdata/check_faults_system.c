/* System calls on closed memory: each is brought to the core before it is made, and then does what it would have done. */
#include "check_faults.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int pair[2];

static void connect_pair(void)
{
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
}

/* Straight from the program to the kernel. */
static void raw(void)
{
	unsigned char *p = pinned(3);
	connect_pair();
	destination(p, 64);
	CHECK(syscall(SYS_write, pair[0], p + 100, 50) == 50); /* on the page, outside of what is in flight */
	CHECK(seen()->touches == 1 && seen()->steps == 1 && seen()->findings == 0);
	CHECK(seen()->address == (uintptr_t)p + 100 && seen()->length == 50 && !seen()->write && seen()->instruction == 0);
	CHECK(seen()->access.depth > 1);
	CHECK(syscall(SYS_read, pair[1], p + 200, 50) == 50); /* also there, the other way */
	CHECK(seen()->touches == 2 && seen()->steps == 2 && seen()->findings == 0 && seen()->write);
	CHECK(memcmp(p + 200, p + 100, 0) == 0);
	CHECK(write(pair[0], "0123456789", 10) == 10);
	CHECK(syscall(SYS_read, pair[1], p + 60, 10) == 10); /* into what is in flight */
	CHECK(seen()->findings == 1 && memcmp(p + 60, "0123456789", 10) == 0);
	for (int i = 0; i < 50; i++)
		CHECK(p[200 + i] == pattern((size_t)(100 + i)));
	errno = 0;
	CHECK(syscall(SYS_write, 999, p, 10) == -1 && errno == EBADF); /* errors are those of the kernel */
	CHECK(syscall(SYS_write, pair[0], p + 4 * PAGE, 10) == -1 && errno == EFAULT); /* nobody's memory */
}

/* Through libc. */
static void plain(void)
{
	unsigned char *p = pinned(40);
	int fd = memfd_create("file", 0);
	CHECK(fd >= 0);
	destination(p, 40 * PAGE);
	OK(aclrtSynchronizeStream(NULL)); /* every page is closed, nothing is in flight */
	CHECK(write(fd, p, 40 * PAGE) == 40 * PAGE);
	destination(p, 40 * PAGE);
	OK(aclrtSynchronizeStream(NULL));
	CHECK(pread(fd, p + PAGE, 2 * PAGE, PAGE) == 2 * PAGE);
	for (size_t i = 0; i < 40 * PAGE; i++)
		CHECK(p[i] == pattern(i));
	destination(p, 64);
	CHECK(pwrite(fd, p, 10, 0) == 10 && seen()->findings == 1);
	destination(p, 64);
	CHECK(getrandom(p + 32, 64, 0) == 64 && seen()->findings == 2);
	destination(p, 64);
	CHECK(fstat(fd, (struct stat *)(p + 64)) == 0 && seen()->findings == 2);
	CHECK(((struct stat *)(p + 64))->st_size == 40 * PAGE);
}

/* Through a FILE. */
static void files(void)
{
	unsigned char *p = pinned(4);
	FILE *f = tmpfile();
	CHECK(f);
	destination(p, 4 * PAGE);
	OK(aclrtSynchronizeStream(NULL));
	CHECK(fwrite(p, 1, 4 * PAGE, f) == 4 * PAGE && fflush(f) == 0);
	rewind(f);
	destination(p, 4 * PAGE);
	OK(aclrtSynchronizeStream(NULL));
	CHECK(fread(p, 1, 4 * PAGE, f) == 4 * PAGE);
	for (size_t i = 0; i < 4 * PAGE; i++)
		CHECK(p[i] == pattern(i));
	CHECK(seen()->findings == 0 && seen()->touches > 0);
}

/* With several pieces. */
static void vectored(void)
{
	unsigned char *p = pinned(2);
	char plain[10];
	connect_pair();
	destination(p, 64);
	struct iovec v[] = {{"abc", 3}, {p + 100, 7}, {p + 200, 0}};
	CHECK(writev(pair[0], v, 3) == 10 && seen()->findings == 0 && seen()->touches == 1 && seen()->steps == 1);
	struct iovec in[] = {{plain, 3}, {p + 300, 7}};
	CHECK(readv(pair[1], in, 2) == 10 && seen()->findings == 0 && seen()->write && seen()->steps == 2);
	struct msghdr m = {.msg_iov = v, .msg_iovlen = 3};
	CHECK(sendmsg(pair[0], &m, 0) == 10 && seen()->findings == 0);
	in[1].iov_base = p + 60;
	m = (struct msghdr){.msg_iov = in, .msg_iovlen = 2};
	CHECK(recvmsg(pair[1], &m, 0) == 10 && seen()->findings == 1);
	for (int i = 0; i < 7; i++)
		CHECK(p[300 + i] == pattern((size_t)(100 + i)) && p[60 + i] == pattern((size_t)(100 + i)));
	destination(p, 64);
	char there[7];
	struct iovec here = {p + 10, 7}, remote = {there, 7};
	CHECK(process_vm_writev(getpid(), &here, 1, &remote, 1, 0) == 7 && seen()->findings == 2);
	/* A process may name its own memory as that of the other one. */
	destination(p, 64);
	remote = (struct iovec){p + 100, 7};
	here = (struct iovec){there, 7};
	CHECK(process_vm_readv(getpid(), &here, 1, &remote, 1, 0) == 7 && seen()->findings == 2);
	for (int i = 0; i < 7; i++)
		CHECK((unsigned char)there[i] == pattern((size_t)(100 + i)));
	CHECK(process_vm_writev(getpid(), &here, 1, &remote, 1, 0) == 7 && seen()->findings == 2 && seen()->write);
	remote.iov_base = p + 60;
	CHECK(process_vm_readv(getpid(), &here, 1, &remote, 1, 0) == 7 && seen()->findings == 3 && !seen()->write);
	CHECK(recvmsg(pair[1], NULL, MSG_DONTWAIT) == -1);
}

/* A call that waits: the buffer is named before, and the data comes later, from a thread that was there before the filter. */
static void *sender(void *unused)
{
	(void)unused;
	CHECK(write(pair[0], "later", 5) == 5);
	return NULL;
}

static void waiting(void)
{
	unsigned char *p = pinned(1);
	pthread_t t;
	connect_pair();
	destination(p, 64);
	CHECK(pthread_create(&t, NULL, sender, NULL) == 0);
	CHECK(syscall(SYS_recvfrom, pair[1], p + 64, 5, 0, NULL, NULL) == 5);
	CHECK(memcmp(p + 64, "later", 5) == 0 && seen()->findings == 0);
	CHECK(pthread_join(t, NULL) == 0);
}

/* A child keeps the filter over exec: a plain program is not disturbed, and one that is checked too works. */
static void executes(void)
{
	unsigned char *p = pinned(1);
	destination(p, 64);
	CHECK(syscall(SYS_write, -1, p + 100, 1) == -1 && seen()->touches == 1); /* the filter is there */
	CHECK(system("cat /dev/null && dd if=/dev/zero bs=64k count=2 2>/dev/null | wc -c >/dev/null") == 0);
	pid_t child = fork();
	if (child == 0) {
		execl("/proc/self/exe", "program", "raw", NULL);
		_exit(99);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char **argv)
{
	static const struct mode modes[] = {MODE(raw), MODE(plain), MODE(files), MODE(vectored), MODE(waiting), MODE(executes)};
	return run_mode(modes, sizeof modes / sizeof *modes, argc, argv);
}
