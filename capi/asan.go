//go:build cgo

package main

// #define _GNU_SOURCE
// #include <dlfcn.h>
// #include <stddef.h>
// #include <stdint.h>
//
// typedef void (*region)(const volatile void *, size_t);
// static region poison(void) { return (region)(uintptr_t)dlsym(RTLD_DEFAULT, "__asan_poison_memory_region"); }
// static region unpoison(void) { return (region)(uintptr_t)dlsym(RTLD_DEFAULT, "__asan_unpoison_memory_region"); }
// static void call_region(region r, uintptr_t at, size_t n) { r((const volatile void *)at, n); }
import "C"

// Programs built with AddressSanitizer have functions by which an allocator marks memory as inaccessible.

// shade returns a function that tells AddressSanitizer whether the program must not use addresses of pinned memory;
// nil if the program was built without it.
func shade() func(lo, hi uintptr, forbidden bool) {
	poison, unpoison := C.poison(), C.unpoison()
	if poison == nil || unpoison == nil {
		return nil
	}
	return func(lo, hi uintptr, forbidden bool) {
		f := unpoison
		if forbidden {
			f = poison
		}
		C.call_region(f, C.uintptr_t(lo), C.size_t(hi-lo))
	}
}
