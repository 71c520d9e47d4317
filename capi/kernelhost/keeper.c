/*
 * ropeway-kernels: the processes that run kernels, for ROPEWAY_KERNEL_PROCESS=1.
 *
 * The first process is the keeper. It has device memory and the shared objects with kernels, and runs none of them: it forks processes
 * that do (serve.c). One that a kernel has ended or damaged is replaced by another, which has the same memory, the same code at the same
 * addresses, and the variables as they were: those are in files, too. The keeper has one thread, so what it forks is whole.
 *
 * It is started by ropeway_kernel_spawn and ends with the program: when its socket is closed, or the program has ended while a child of it
 * still has the socket.
 */
#define _GNU_SOURCE
#include "host.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static char *runs; /* launches: see kernel.h; shared with the program */
static uint64_t runs_bytes;
static int program = -1; /* a descriptor of the program's process, or -1 */
static int children_end = -1;

enum { MOST_CHILDREN = 64 };
static struct {
	pid_t pid;       /* 0: none */
	uint64_t number; /* unlike pid it is never used again */
} children[MOST_CHILDREN];
static uint64_t forks;

int receive(int socket, message *m)
{
	struct iovec part = {&m->asked, sizeof m->asked};
	union {
		char bytes[CMSG_SPACE(sizeof m->files)];
		struct cmsghdr align;
	} control;
	struct msghdr head = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	ssize_t n;
	memset(m->files, -1, sizeof m->files);
	m->asked.text[0] = 0;
	while ((n = recvmsg(socket, &head, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
		;
	if (n < (ssize_t)offsetof(ropeway_asked, text))
		return 0;
	struct cmsghdr *c = CMSG_FIRSTHDR(&head);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		size_t bytes = c->cmsg_len - CMSG_LEN(0);
		memcpy(m->files, CMSG_DATA(c), bytes < sizeof m->files ? bytes : sizeof m->files);
	}
	return 1;
}

void answer(int socket, const ropeway_answer *a, const int *files, int count)
{
	struct iovec part = {(void *)a, sizeof *a};
	union {
		char bytes[CMSG_SPACE(ROPEWAY_MOST_DATA * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct msghdr head = {.msg_iov = &part, .msg_iovlen = 1};
	if (count > 0) {
		head.msg_control = &control;
		head.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&head);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
		memcpy(CMSG_DATA(c), files, (size_t)count * sizeof(int));
	}
	while (sendmsg(socket, &head, MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

int map(const message *m)
{
	const ropeway_asked *q = &m->asked;
	void *at = (void *)(uintptr_t)q->a;
	int empty = m->files[0] < 0;
	int how = (empty ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED) | MAP_NORESERVE | (q->d ? MAP_FIXED : MAP_FIXED_NOREPLACE);
	void *got = mmap(at, q->b, empty ? PROT_NONE : PROT_READ | PROT_WRITE, how, m->files[0], (off_t)q->c);
	if (got == MAP_FAILED)
		return errno;
	if (got == at)
		return 0;
	munmap(got, q->b); /* a system before 4.17 takes the address for a wish */
	return EEXIST;
}

int unmap(const message *m)
{
	return munmap((void *)(uintptr_t)m->asked.a, m->asked.b) ? errno : 0;
}

static int init(const message *m)
{
	runs_bytes = m->asked.a;
	runs = mmap(NULL, runs_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m->files[0], 0);
	if (runs == MAP_FAILED)
		return errno;
	if (m->files[1] >= 0)
		program = fcntl(m->files[1], F_DUPFD_CLOEXEC, 3);
	return 0;
}

/* The variables of an object, in files of their own at the addresses that they have. */
struct data {
	const struct link_map *of;
	ropeway_answer *a;
	int files[ROPEWAY_MOST_DATA];
	int error;
};

/* Moves pages to a file. */
static int move(struct data *d, uintptr_t from, uintptr_t to)
{
	if (d->a->count == ROPEWAY_MOST_DATA)
		return E2BIG;
	int f = (int)syscall(SYS_memfd_create, "ropeway-variables", 1U /* MFD_CLOEXEC */);
	if (f < 0)
		return errno;
	for (uintptr_t at = from; at < to;) {
		ssize_t n = write(f, (void *)at, to - at);
		if (n < 0 && errno != EINTR) {
			int error = errno;
			close(f);
			return error;
		}
		at += n > 0 ? (uintptr_t)n : 0;
	}
	if (mmap((void *)from, to - from, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, f, 0) == MAP_FAILED) {
		int error = errno;
		close(f);
		return error;
	}
	d->files[d->a->count] = f;
	d->a->data[d->a->count][0] = from;
	d->a->data[d->a->count++][1] = to - from;
	return 0;
}

static int part(struct dl_phdr_info *i, size_t size, void *data)
{
	struct data *d = data;
	(void)size;
	/* Two objects can have one name, but not one place: the dynamic section says which it is. */
	const ElfW(Phdr) *relro = NULL;
	int ours = 0;
	for (int k = 0; k < i->dlpi_phnum; k++) {
		const ElfW(Phdr) *p = &i->dlpi_phdr[k];
		if (p->p_type == PT_DYNAMIC && i->dlpi_addr + p->p_vaddr == (uintptr_t)d->of->l_ld)
			ours = 1;
		if (p->p_type == PT_GNU_RELRO)
			relro = p;
	}
	if (!ours)
		return 0;
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	for (int k = 0; k < i->dlpi_phnum && !d->error; k++) {
		const ElfW(Phdr) *p = &i->dlpi_phdr[k];
		if (p->p_type != PT_LOAD || !(p->p_flags & PF_W) || !p->p_memsz)
			continue;
		uintptr_t from = (i->dlpi_addr + p->p_vaddr) & ~(page - 1);
		uintptr_t to = (i->dlpi_addr + p->p_vaddr + p->p_memsz + page - 1) & ~(page - 1);
		/* What the loader has closed again has no variables. */
		if (relro && relro->p_vaddr >= p->p_vaddr && relro->p_vaddr < p->p_vaddr + p->p_memsz)
			from = (i->dlpi_addr + relro->p_vaddr + relro->p_memsz) & ~(page - 1);
		if (from < to)
			d->error = move(d, from, to);
	}
	return 1;
}

/* Whether an object can be loaded at all: functions that run then may end the process. */
static int trial(const char *path, char *text, size_t room)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC))
		return errno;
	pid_t child = fork();
	if (child < 0) {
		close(ends[0]);
		close(ends[1]);
		return errno;
	}
	if (!child) {
		const char *why = dlopen(path, RTLD_NOW | RTLD_LOCAL) ? "" : dlerror();
		_exit(write(ends[1], why, strlen(why) + 1) < 0);
	}
	close(ends[1]);
	ssize_t n;
	while ((n = read(ends[0], text, room - 1)) < 0 && errno == EINTR)
		;
	close(ends[0]);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	if (n <= 0)
		n = snprintf(text, room, "what it does when it is loaded ends the process");
	text[n] = 0;
	return *text ? ENOEXEC : 0;
}

static void load(int socket, const message *m, ropeway_answer *a)
{
	char path[ROPEWAY_MOST_TEXT + 32];
	snprintf(path, sizeof path, "%s/fd/%d", m->asked.text, m->files[0]);
	struct data d = {.a = a};
	void *handle = NULL;
	a->error = trial(path, a->text, sizeof a->text);
	if (!a->error && !(handle = dlopen(path, RTLD_NOW | RTLD_LOCAL))) {
		a->error = ENOEXEC;
		snprintf(a->text, sizeof a->text, "%s", dlerror());
	}
	struct link_map *l;
	if (!a->error && !dlinfo(handle, RTLD_DI_LINKMAP, &l)) {
		d.of = l;
		dl_iterate_phdr(part, &d);
		a->error = d.error;
	}
	a->result = (uintptr_t)handle;
	if (a->error && handle)
		dlclose(handle);
	answer(socket, a, d.files, a->error ? 0 : (int)a->count);
	for (uint64_t i = 0; i < a->count; i++)
		close(d.files[i]);
}

static void lookup(const message *m, ropeway_answer *a)
{
	dlerror();
	a->result = (uintptr_t)dlsym((void *)(uintptr_t)m->asked.a, m->asked.text);
	const char *why = dlerror();
	if (why) {
		a->error = ENOENT;
		snprintf(a->text, sizeof a->text, "%s", why);
	}
}

/* Takes note of children that have ended, and reports them. */
static void reap(int socket)
{
	struct signalfd_siginfo info;
	while (read(children_end, &info, sizeof info) > 0)
		;
	for (int i = 0; i < MOST_CHILDREN; i++) {
		siginfo_t ended = {0};
		if (!children[i].pid || waitid(P_PID, (id_t)children[i].pid, &ended, WEXITED | WNOHANG | WNOWAIT) || !ended.si_pid)
			continue;
		kill(-children[i].pid, SIGKILL); /* what a kernel has forked */
		waitpid(children[i].pid, NULL, 0);
		children[i].pid = 0;
		answer(socket, &(ropeway_answer){.result = children[i].number}, NULL, 0);
	}
}

static void split(int socket, const message *m, ropeway_answer *a)
{
	int i = 0;
	while (i < MOST_CHILDREN && children[i].pid)
		i++;
	if (i == MOST_CHILDREN) {
		a->error = EAGAIN;
		return;
	}
	pid_t keeper = getpid(), child = fork();
	if (child < 0) {
		a->error = errno;
		return;
	}
	if (!child) {
		setpgid(0, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != keeper)
			_exit(0);
		close(socket);
		close(children_end);
		if (program >= 0)
			close(program);
		sigset_t none;
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		serve(m->files[0], runs, runs_bytes);
	}
	setpgid(child, child); /* it does so, too: one of us is first */
	children[i].pid = child;
	a->result = children[i].number = ++forks;
}

static void kill_child(uint64_t number)
{
	for (int i = 0; i < MOST_CHILDREN; i++)
		if (children[i].pid && children[i].number == number)
			kill(children[i].pid, SIGKILL); /* it has not been waited for, so this is still its own */
}

/* Ends with all that was begun here. */
static int finish(void)
{
	for (int i = 0; i < MOST_CHILDREN; i++)
		if (children[i].pid)
			kill(-children[i].pid, SIGKILL);
	return 0;
}

static void carry_out(int socket, const message *m)
{
	ropeway_answer a = {.id = m->asked.id};
	switch (m->asked.what) {
	case ROPEWAY_ASK_INIT:
		a.error = init(m);
		break;
	case ROPEWAY_ASK_MAP:
		a.error = map(m);
		break;
	case ROPEWAY_ASK_UNMAP:
		a.error = unmap(m);
		break;
	case ROPEWAY_ASK_LOAD:
		load(socket, m, &a);
		return;
	case ROPEWAY_ASK_SYMBOL:
		lookup(m, &a);
		break;
	case ROPEWAY_ASK_CLOSE:
		dlclose((void *)(uintptr_t)m->asked.a);
		break;
	case ROPEWAY_ASK_FORK:
		split(socket, m, &a);
		break;
	case ROPEWAY_ASK_KILL:
		kill_child(m->asked.a);
		break;
	default:
		a.error = ENOSYS;
	}
	answer(socket, &a, NULL, 0);
}

static void close_others(int socket)
{
	if (socket > 3)
		syscall(SYS_close_range, 3, socket - 1, 0);
	syscall(SYS_close_range, socket + 1, ~0U, 0);
}

int main(int count, char **arguments)
{
	int socket = count == 2 ? atoi(arguments[1]) : -1;
	if (socket < 3) {
		fprintf(stderr, "ropeway-kernels is started by ropeway: see ROPEWAY_KERNEL_PROCESS\n");
		return 2;
	}
	setsid(); /* what a terminal sends to the program is not for us */
	close_others(socket);
	fcntl(socket, F_SETFD, FD_CLOEXEC);
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (nothing >= 0)
		dup2(nothing, 0);
	setvbuf(stdout, NULL, _IONBF, 0); /* what a kernel prints is not lost with its process */
	sigset_t ends;
	sigemptyset(&ends);
	sigaddset(&ends, SIGCHLD);
	sigprocmask(SIG_SETMASK, &ends, NULL);
	signal(SIGCHLD, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	children_end = signalfd(-1, &ends, SFD_NONBLOCK | SFD_CLOEXEC);
	static message m;
	for (;;) {
		struct pollfd all[] = {{socket, POLLIN, 0}, {children_end, POLLIN, 0}, {program, POLLIN, 0}};
		if (poll(all, 3, -1) < 0 && errno != EINTR)
			return 1;
		reap(socket);
		if (all[2].revents)
			return finish();
		if (!all[0].revents)
			continue;
		if (!receive(socket, &m))
			return finish();
		carry_out(socket, &m);
		for (int i = 0; i < MOST_FILES; i++)
			if (m.files[i] >= 0)
				close(m.files[i]);
	}
}
