// Command everything is a program that can be checked and can run on GPUs; TestLinked looks at what it links.
package main

import (
	"fmt"

	"ropeway"
	_ "ropeway/check"
	_ "ropeway/driver/cuda"
)

func main() { fmt.Println(ropeway.Open()) }
