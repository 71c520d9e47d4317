// Package ipctest tests memory that processes share with processes: this test binary, started again in a role. They end
// as they like, most of all by kill -9, and nothing may be left of them.
package ipctest
