// Package lockcheck compares what comments say about locks with what the code does.
//
// Two kinds of comments are read, which the whole repository uses:
//
//   - "guarded by mu", of a field of a struct: mu is a mutex beside it, c.mu one in the struct that c beside it is, and
//     Type.mu one of another struct of the package. Every
//     read and write of the field has to happen with that mutex locked.
//   - "mu is held" ("d.mu and Driver.gone are held", "with mu held", "the caller holds mu"), of a function: its callers
//     have locked that mutex, and everything in it is judged so.
//
// A third kind names a function of the API: "Free is aclrtFree". Pointers and slices among its parameters, and those of
// functions of the package that it passes them to, are the program's. An access to them may fault, which is a panic, or
// take as long as the program likes; it is reported where any mutex is locked.
//
// A mutex is known by its field: that of another value of the same type counts as well. Functions are walked statement
// by statement. After a branch, what is locked on every way out of it is locked. A function literal is judged with what
// is locked where it is written, unless it is started as a goroutine, stored in a field or returned. A value that a
// function has just made is its own. Where the code is right for a reason that this cannot see, a comment "lockcheck:
// why" on the line, or on the function, says so. It has tests alone.
package lockcheck
