// Command testreport runs `go test` and reports it honestly: one line per
// package as it ends, each row of a table that a test logs ("| … | … |") as it comes,
// each failure in full with its output, the slowest packages, and as the very last line
//
//	N passed, N failed, N skipped
//
// Its arguments are those of `go test`. A test that has subtests is counted by
// its subtests, so that no promise counts twice; it counts itself only if it
// failed on its own. A package that does not build, or dies outside its tests
// (a panic, a timeout, a failing TestMain), counts as one failure. The exit
// code is 0 only if nothing failed and `go test` itself was content.
package main

import (
	"fmt"
	"os"
	"os/exec"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

// run executes go test with the given arguments and returns the exit code.
func run(args []string) int {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "testreport: start go test: %v\n", err)
		return 1
	}
	r := newReport(os.Stdout)
	readErr := r.read(events)
	waitErr := cmd.Wait()
	if readErr != nil {
		fmt.Fprintf(os.Stderr, "testreport: read the output of go test: %v\n", readErr)
	}
	if waitErr != nil && r.failed() == 0 {
		// go test failed before any package could: a bad flag, a broken go.mod.
		r.countFailure(fmt.Sprintf("go test: %v", waitErr))
	}
	r.finish()
	if readErr != nil || r.failed() > 0 {
		return 1
	}
	return 0
}
