// Package modeltest compares memory pools, virtual memory, batches and long runs of copies with plain models. Random
// programs of everything else are those of package randprog.
//
// All of it is tests.
package modeltest
