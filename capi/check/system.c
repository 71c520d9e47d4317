/*
 * System calls on closed memory. The kernel returns EFAULT and sends no signal, so they must be intercepted: a filter
 * (seccomp) turns calls whose buffer is in the window of pinned memory into SIGSYS. The thread then reports the bytes
 * to the core, repeats the call from a fixed address that the filter allows, and continues with the result.
 *
 * A filter cannot be removed, and children keep it across exec. So the window is at addresses that ordinary programs
 * do not use, and the fixed address is the same in every process: a child that is checked too passes its parent's
 * filter.
 *
 * Registered memory may be at any address and is not filtered; the wrappers of vectored.c handle it, and calls with a
 * list of buffers.
 */
#define _GNU_SOURCE
#include "checker.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_SECCOMP
#define SYS_SECCOMP 1 /* si_code of a filtered call */
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

atomic_bool check_filtered;

/* A call with one buffer. */
struct call {
	int number;
	signed char pointer, length; /* argument numbers; length -1: unit is the whole size */
	unsigned short unit;         /* size of the units of length */
	char write;                  /* the kernel writes into the buffer */
};

static const struct call calls[] = {
	{SYS_read, 1, 2, 1, 1},
	{SYS_write, 1, 2, 1, 0},
	{SYS_pread64, 1, 2, 1, 1},
	{SYS_pwrite64, 1, 2, 1, 0},
	{SYS_recvfrom, 1, 2, 1, 1},
	{SYS_sendto, 1, 2, 1, 0},
	{SYS_getrandom, 0, 1, 1, 1},
	{SYS_getdents64, 1, 2, 1, 1},
	{SYS_getcwd, 0, 1, 1, 1},
	{SYS_readlinkat, 2, 3, 1, 1},
	{SYS_newfstatat, 2, -1, sizeof(struct stat), 1},
	{SYS_fstat, 1, -1, sizeof(struct stat), 1},
	{SYS_ppoll, 0, 1, sizeof(struct pollfd), 1},
	{SYS_epoll_pwait, 1, 2, sizeof(struct epoll_event), 1},
	{SYS_futex, 0, -1, 4, 1},
#ifdef SYS_readlink
	{SYS_readlink, 1, 2, 1, 1},
#endif
#ifdef SYS_stat
	{SYS_stat, 1, -1, sizeof(struct stat), 1},
	{SYS_lstat, 1, -1, sizeof(struct stat), 1},
#endif
#ifdef SYS_poll
	{SYS_poll, 0, 1, sizeof(struct pollfd), 1},
	{SYS_epoll_wait, 1, 2, sizeof(struct epoll_event), 1},
#endif
};

enum { CALLS = sizeof calls / sizeof *calls, OURS = 0x5277 /* distinguishes our filter's signals from the program's own */ };

/* The fixed address: a page with a copy of the code below, which is libc's syscall(). */
#if defined(__x86_64__)

static const uintptr_t pages[] = {0x54ffffff0000};
#define ARCHITECTURE AUDIT_ARCH_X86_64

__asm__(".pushsection .text\n"
	"ropeway_check_again:\n"
	"	mov %rdi, %rax\n"
	"	mov %rsi, %rdi\n"
	"	mov %rdx, %rsi\n"
	"	mov %rcx, %rdx\n"
	"	mov %r8, %r10\n"
	"	mov %r9, %r8\n"
	"	mov 8(%rsp), %r9\n"
	"	syscall\n"
	"ropeway_check_again_called:\n"
	"	ret\n"
	"ropeway_check_again_end:\n"
	".popsection\n");

static uint64_t argument(const ucontext_t *c, int i)
{
	static const int registers[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};
	return (uint64_t)c->uc_mcontext.gregs[registers[i]];
}

static void set_result(ucontext_t *c, long result)
{
	c->uc_mcontext.gregs[REG_RAX] = result;
}

#elif defined(__aarch64__)

static const uintptr_t pages[] = {0xa9ffffff0000, 0x2fffff0000};
#define ARCHITECTURE AUDIT_ARCH_AARCH64

__asm__(".pushsection .text\n"
	"ropeway_check_again:\n"
	"	mov x8, x0\n"
	"	mov x0, x1\n"
	"	mov x1, x2\n"
	"	mov x2, x3\n"
	"	mov x3, x4\n"
	"	mov x4, x5\n"
	"	mov x5, x6\n"
	"	svc #0\n"
	"ropeway_check_again_called:\n"
	"	ret\n"
	"ropeway_check_again_end:\n"
	".popsection\n");

static uint64_t argument(const ucontext_t *c, int i)
{
	return c->uc_mcontext.regs[i];
}

static void set_result(ucontext_t *c, long result)
{
	c->uc_mcontext.regs[0] = (uint64_t)result;
}

#endif

extern const char again_code[] __asm__("ropeway_check_again") __attribute__((visibility("hidden")));
extern const char again_called[] __asm__("ropeway_check_again_called") __attribute__((visibility("hidden")));
extern const char again_end[] __asm__("ropeway_check_again_end") __attribute__((visibility("hidden")));

typedef long (*again_function)(long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f);
static again_function again;

static const struct call *find(int number)
{
	for (int i = 0; i < CALLS; i++)
		if (calls[i].number == number)
			return &calls[i];
	return NULL;
}

/* A thread whose call was filtered, outside of the signal handler. */
static void stopped(int signal, siginfo_t *info, void *context)
{
	ucontext_t *c = context;
	const struct call *k = find(info->si_syscall);
	struct self *me = check_self();
	struct opened o = {0};
	(void)signal;
	if (k && !me->judged) {
		uint64_t length = k->length < 0 ? 1 : argument(c, k->length);
		uint64_t size = length < SIZE_MAX / 2 / k->unit ? length * k->unit : SIZE_MAX / 2;
		check_open(argument(c, k->pointer), size, k->write, &o);
	}
	long result;
	int tries = 0;
	do {
		result = again(info->si_syscall, argument(c, 0), argument(c, 1), argument(c, 2), argument(c, 3), argument(c, 4), argument(c, 5));
	} while (result == -EFAULT && k && !me->judged && ++tries < 4 &&
		 check_open(argument(c, k->pointer), k->length < 0 ? k->unit : argument(c, k->length) * k->unit, k->write, &o));
	if (o.fence && o.stores && k->unit == 1 && (result == -EFAULT || result == (long)o.reach))
		check_ran_over(&o);
	check_close(&o);
	set_result(c, result);
}

void check_on_system_call(int signal, siginfo_t *info, void *context)
{
	if (info->si_code == SYS_SECCOMP && info->si_errno == OURS && again)
		check_redirect(signal, info, context, stopped);
	check_to_program(signal, info, context);
}

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, field))
#define LOW(field) LOAD(field)
#define HIGH(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, field) + 4)
#define IF(test, value, yes, no) BPF_JUMP(BPF_JMP | (test) | BPF_K, (unsigned)(value), yes, no)
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, (unsigned)(value))

/*
 * The filter: for each call, whether the upper half of its pointer is within the window's, and whether it was not
 * made from the fixed address. The window is rounded to whole 4 GiB: a call that is filtered needlessly is simply
 * repeated.
 */
static unsigned short write_filter(struct sock_filter *f, uint64_t low, uint64_t high)
{
	unsigned short n = 0;
	f[n++] = (struct sock_filter)LOAD(arch);
	f[n++] = (struct sock_filter)IF(BPF_JEQ, ARCHITECTURE, 1, 0);
	f[n++] = (struct sock_filter)ANSWER(SECCOMP_RET_ALLOW);
	f[n++] = (struct sock_filter)LOAD(nr);
	for (int argument = 0; argument < 3; argument++) {
		unsigned char left = 0;
		for (int i = 0; i < CALLS; i++)
			left += calls[i].pointer == argument;
		for (int i = 0; i < CALLS; i++)
			if (calls[i].pointer == argument) {
				unsigned char to = --left + 1; /* to the test after the last of these */
				f[n++] = (struct sock_filter)IF(BPF_JEQ, calls[i].number, to, 0);
			}
		unsigned char rest = 5 + 5 * sizeof pages / sizeof *pages;
		f[n++] = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, rest);
		f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						       (unsigned)offsetof(struct seccomp_data, args) + 8 * (unsigned)argument + 4);
		f[n++] = (struct sock_filter)IF(BPF_JGE, low >> 32, 0, 1);
		f[n++] = (struct sock_filter)IF(BPF_JGT, (high - 1) >> 32, 0, 1);
		f[n++] = (struct sock_filter)ANSWER(SECCOMP_RET_ALLOW);
		for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
			uint64_t from = pages[i] + (uint64_t)(again_called - again_code);
			f[n++] = (struct sock_filter)LOW(instruction_pointer);
			f[n++] = (struct sock_filter)IF(BPF_JEQ, from, 0, 3);
			f[n++] = (struct sock_filter)HIGH(instruction_pointer);
			f[n++] = (struct sock_filter)IF(BPF_JEQ, from >> 32, 0, 1);
			f[n++] = (struct sock_filter)ANSWER(SECCOMP_RET_ALLOW);
		}
		f[n++] = (struct sock_filter)ANSWER(SECCOMP_RET_TRAP | OURS);
	}
	f[n++] = (struct sock_filter)ANSWER(SECCOMP_RET_ALLOW);
	return n;
}

/* Maps the code at the fixed address; 0 if that is in use. It uses system calls: ThreadSanitizer ends a process that
 * maps at this address. */
static int prepare(void)
{
	for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
		void *at = (void *)pages[i];
		void *page = (void *)syscall(SYS_mmap, at, 4096, PROT_READ | PROT_WRITE,
					     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (page == MAP_FAILED)
			continue;
		if (page != at) {
			syscall(SYS_munmap, page, 4096);
			continue;
		}
		memcpy(page, again_code, (size_t)(again_end - again_code));
		__builtin___clear_cache((char *)page, (char *)page + 4096);
		if (mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0) {
			again = (again_function)(uintptr_t)page;
			return 1;
		}
	}
	return 0;
}

void check_watch_system_calls(void)
{
	struct sock_filter filter[8 + CALLS + 3 * (6 + 5 * sizeof pages / sizeof *pages)];
	uint64_t window[2] = {0, 0}, a[] = {(uintptr_t)window};
	int error = errno;
	if (atomic_exchange(&check_filtered, 1))
		return;
	check_core(ROPEWAY_SPANS, NULL, a);
	if (window[1] > window[0] && prepare()) {
		struct sock_fprog program = {write_filter(filter, window[0], window[1]), filter};
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
		    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0) {
			errno = error;
			return;
		}
	}
	char text[200];
	snprintf(text, sizeof text, "system calls on memory in flight cannot be watched (seccomp: %s): they may fail with EFAULT", strerror(errno));
	check_note(text);
	errno = error;
}
