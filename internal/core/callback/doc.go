// Package callback keeps the functions of the program that the core calls: lists by name, the queue of failures for
// exception callbacks, and the functions that subscribed threads run in aclrtProcessReport and aclrtProcessHostFunc.
//
// It knows neither streams nor devices, and its locks are taken last: no other lock is taken, and no function of the
// program is called, while one is held.
package callback
