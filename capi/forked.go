//go:build cgo

package main

// #include <pthread.h>
// #include <stdatomic.h>
// #include <stdint.h>
// #include <unistd.h>
//
// enum { WORD = 64, MOST = 1 << 20 }; // descriptors: as many as a process may have, as Linux is set up
//
// static _Atomic uint64_t closes[MOST / WORD]; // a bit for each
// static atomic_uint words;                    // of closes that were ever used
// static atomic_bool prepared;
//
// // Runs in the child of a fork: nothing of Go does.
// static void in_child(void)
// {
// 	for (unsigned i = 0; i < atomic_load(&words); i++)
// 		for (uint64_t left = atomic_exchange(&closes[i], 0); left; left &= left - 1)
// 			close((int)(i * WORD) + __builtin_ctzll(left));
// }
//
// static void close_in_child(unsigned fd, int yes)
// {
// 	uint64_t bit = (uint64_t)1 << fd % WORD;
// 	if (fd >= MOST)
// 		return;
// 	if (!yes) {
// 		atomic_fetch_and(&closes[fd / WORD], ~bit);
// 		return;
// 	}
// 	atomic_fetch_or(&closes[fd / WORD], bit);
// 	unsigned now = atomic_load(&words);
// 	while (now <= fd / WORD && !atomic_compare_exchange_weak(&words, &now, fd / WORD + 1))
// 		;
// 	if (!atomic_exchange(&prepared, 1))
// 		pthread_atfork(NULL, NULL, in_child);
// }
import "C"

// closeInChild records whether a child of this process must close a descriptor. Before the first one, forks have no
// extra cost.
func closeInChild(fd int, closes bool) {
	yes := C.int(0)
	if closes {
		yes = 1
	}
	C.close_in_child(C.uint(fd), yes)
}
