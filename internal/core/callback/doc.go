// Package callback keeps the functions of the program that the core calls: lists by name, the queue of failures for
// exception callbacks, and the functions that subscribed threads run in aclrtProcessReport.
//
// It does not depend on streams or devices. Its locks are taken last: while one is held, no other lock is taken and no
// function of the program is called.
package callback
