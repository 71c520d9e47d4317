//go:build !race

package ropeway_test

const raced = false
