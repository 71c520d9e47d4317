package testenv

import (
	"runtime"
	"sync/atomic"
	"testing"
)

func sleepsHere(c chan int) { <-c }

func spinsHere(stop *atomic.Bool) {
	for !stop.Load() {
		runtime.Gosched()
	}
}

// TestParked: a goroutine that sleeps in the function counts; one that runs in it does not, nor one that was started
// there and sleeps elsewhere.
func TestParked(t *testing.T) {
	if n := Parked("testenv.sleepsHere"); n != 0 {
		t.Fatalf("%d are parked before any is", n)
	}
	c, over := make(chan int), make(chan int)
	var stop atomic.Bool
	for range 3 {
		go func() { sleepsHere(c); over <- 1 }()
	}
	go func() { spinsHere(&stop); over <- 1 }()
	AwaitParked(t, 3, "testenv.sleepsHere")
	if n := Parked("testenv.sleepsHere"); n != 3 {
		t.Errorf("%d are parked, want 3", n)
	}
	if n := Parked("testenv.spinsHere"); n != 0 {
		t.Errorf("%d that run are parked", n)
	}
	close(c)
	stop.Store(true)
	for range 4 {
		<-over
	}
}

// TestEventually: the test goes on as soon as the condition holds.
func TestEventually(t *testing.T) {
	asked := 0
	Eventually(t, "it was asked three times", func() bool { asked++; return asked == 3 })
	if asked != 3 {
		t.Errorf("the condition was asked %d times, want 3", asked)
	}
}
