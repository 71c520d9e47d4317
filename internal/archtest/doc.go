// Package archtest tests the structure of the repository: which package may import which, what public packages show,
// how files are written, and what no file may contain. It has tests alone.
package archtest
