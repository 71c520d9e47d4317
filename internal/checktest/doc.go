// Package checktest holds the checker to an oracle: random programs that are correct, and the same programs with one
// dependency taken away.
//
// All of it is tests. A program is data (program_test.go). The generator (generate_test.go) makes it correct with
// clocks of its own; the oracle (oracle_test.go) knows what is ordered from the rules of the API alone and judges every
// program; the runner (run_test.go) drives it through the core.
package checktest
