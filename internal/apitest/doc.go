// Package apitest tests package ropeway as a program uses it.
package apitest
