// Command testreport runs `go test` and reports it honestly: one line per
// package as it ends, each row of a table that a test logs ("| … | … |") as it comes,
// each failure in full with its output, the slowest packages, and as the very last line
//
//	N passed, N failed, N skipped
//
// Its arguments are those of `go test`, after -again, if given: tests that failed then run
// once more, each alone, and those that pass are listed as unsteady instead of failed.
// That is for a machine nobody watches; a person wants to see every failure. With the
// name of a file in TESTREPORT_TOTAL the last line adds up all runs that were given it.
//
// A test that has subtests is counted by
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
	again := len(args) > 0 && args[0] == "-again"
	if again {
		args = args[1:]
	}
	r := newReport(os.Stdout)
	r.total = os.Getenv("TESTREPORT_TOTAL")
	whole := r.watch(args)
	r.endAll()
	if again && whole {
		r.again(func(pkg, test string) *report {
			second := newReport(os.Stdout)
			second.watch(alone(args, pkg, test))
			second.endAll()
			return second
		})
	}
	r.summarize()
	if r.failed() > 0 {
		return 1
	}
	return 0
}

// watch runs go test and takes in what it says. It returns whether everything was heard:
// if not, that is a failure of its own.
func (r *report) watch(args []string) (whole bool) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.countFailure(failure{text: fmt.Sprintf("start go test: %v", err)})
		return false
	}
	readErr := r.read(events)
	waitErr := cmd.Wait()
	switch {
	case readErr != nil:
		r.countFailure(failure{text: fmt.Sprintf("read the output of go test: %v", readErr)})
		return false
	case waitErr != nil && len(r.packages) == 0 && r.failed() == 0:
		// go test failed before any package could: a bad flag, a broken go.mod.
		r.countFailure(failure{text: fmt.Sprintf("go test: %v", waitErr)})
		return false
	}
	return true
}
