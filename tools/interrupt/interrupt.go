package interrupt

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Status is what a program exits with that was interrupted, as a shell has it.
const Status = 130

// Contexts returns those that the first and the second interrupt end. The third calls last
// and exits. stop gives the signals back.
func Contexts(last func()) (first, second context.Context, stop func()) {
	signal.Ignore(syscall.SIGPIPE)
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup: it is to outlive the terminal
		signals = append(signals, syscall.SIGHUP)
	}
	came := make(chan os.Signal, 3)
	signal.Notify(came, signals...)
	second, endSecond := context.WithCancel(context.Background())
	first, endFirst := context.WithCancel(second)
	stopped := make(chan struct{})
	go func() {
		for _, end := range []func(){endFirst, endSecond, func() {
			last()
			os.Exit(Status)
		}} {
			select {
			case <-came:
				end()
			case <-stopped:
				return
			}
		}
	}()
	return first, second, func() {
		signal.Stop(came)
		close(stopped)
		endSecond()
		endFirst()
	}
}
