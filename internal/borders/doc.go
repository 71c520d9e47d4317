// Package borders holds the test of who may import what, and of what no file of the repository may contain.
package borders
