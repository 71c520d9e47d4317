// Package doctest proves the documentation: every command and program that README.md and docs/*.md show is run, here or by a
// test that the page names. It has tests alone.
//
// A page is a story. Its blocks are taken in their order, in a directory that looks like a clone after "make dist", with ropeway
// in PATH:
//
//   - a block with a file name behind its language (```c first.c) is saved as that file, where the reader is by then;
//   - sh blocks are run, all in one shell that stops at the first error;
//   - console blocks have commands behind "$ ", and what they print;
//   - the lines of a text block behind an sh block must be among what was printed, in their order;
//   - the steps of a yaml block ("- run: …") are run, too.
//
// A page leaves nothing in the clone but what is built, in bin/ and dist/: readers work in folders of their own.
//
// Two comments say otherwise, above a block, or above the page's title for all of it:
//
//	<!-- not run: why -->
//	<!-- tested: DIRECTORY TestName TestOther -->
//
// The second names tests that know the page or have the block's text in their directory.
package doctest
