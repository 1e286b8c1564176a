// Package crash_test kills the broker with SIGKILL, again and again under load, at
// instants nobody chose, starts it over the same folder, and holds it to what it
// promised: a value that was acknowledged is in history, once however often it was
// sent, and is what its retaining topic retains unless a later one is.
//
//	go test ./tests/crash                      200 kills
//	go test ./tests/crash -kills 20            fewer
//	go test ./tests/crash -for 10m -timeout 0  as many as ten minutes hold
package crash_test
