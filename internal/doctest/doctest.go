// Package doctest proves the documentation: every command and program that README.md and docs/*.md show is run, here or
// by a test that the page names. It has tests alone.
//
// A page is followed as a reader would follow it: in a fresh shell in a clone, with nothing in PATH but the system's
// commands. Only "make dist" is left out, because the toolkit is built. The blocks of a page are taken in their order:
//
//   - a block with a file name after its language (```c first.c) is saved as that file, where the reader is by then;
//   - sh blocks are run, all in one shell that stops at the first error;
//   - console blocks have commands after "$ ", and what they print;
//   - the lines of a text block after an sh block must be among what was printed, in their order;
//   - the steps of a yaml block ("- run: …") are run, too;
//   - pycon blocks are one session of Python, at the end;
//   - a block with the name of a program in capi/test/testdata/check is an excerpt, which a test there compares.
//
// A page leaves nothing in the clone but what is built, in bin/ and dist/: readers work in folders of their own.
//
// Comments say otherwise, above a block, or above the page's title for all of it:
//
//	<!-- not run: why -->
//	<!-- tested: DIRECTORY TestName TestOther -->
//	<!-- also tested: DIRECTORY TestName TestOther -->
//
// The second names tests that run it elsewhere, the third, of a page, tests of something else in it. The tests know the
// page, or have the block's text in their directory.
package doctest
