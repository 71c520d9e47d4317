// Package modeltest runs random programs and compares what they leave behind, byte for byte, with a plain model.
//
// All of it is tests: rapid programs (model_test.go), a fuzz target for batches and a soak test.
package modeltest
