package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"maestrohub.io/uns/tests/device/fleet"
)

// progress says what goes on: a line for each event, and on a terminal a last line that
// changes.
type progress struct {
	out      io.Writer
	terminal bool
	width    func() int // of the terminal
	begun    time.Time

	mu    sync.Mutex
	line  bool // the last line is the changing one
	asked int  // somebody is, and types
}

// newProgress says it to a file. A terminal that knows no control sequences is none.
func newProgress(out *os.File) *progress {
	p := &progress{out: out, begun: time.Now(), terminal: term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb"}
	p.width = func() int {
		width, _, err := term.GetSize(int(out.Fd()))
		if err != nil || width < 2 { // a terminal that does not say
			return 80
		}
		return width
	}
	return p
}

// still keeps the changing line away until moving is called.
func (p *progress) still() (moving func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
	p.asked++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked--
	}
}

func (p *progress) event(format string, a ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
	fmt.Fprintf(p.out, "%6.1f s  %s\n", time.Since(p.begun).Seconds(), fmt.Sprintf(format, a...))
}

// ask says what somebody is asked to do, apart from all else.
func (p *progress) ask(format string, a ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
	fmt.Fprintf(p.out, "\n  ➜ %s\n\n", fmt.Sprintf(format, a...))
}

func (p *progress) wipe() {
	if p.line {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.line = false
	}
}

// follow shows how the devices are doing until ctx is done.
func (p *progress) follow(ctx context.Context, f *fleet.Fleet) {
	every := 10 * time.Second
	if p.terminal {
		every = 500 * time.Millisecond
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	last, at := f.Acked(), time.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			p.mu.Lock()
			p.wipe()
			p.mu.Unlock()
			return
		}
		acked := f.Acked()
		rate := float64(acked-last) / time.Since(at).Seconds()
		last, at = acked, time.Now()
		connected, devices := 0, 0
		for _, d := range f.Devices() {
			if f.Leaver != nil && d == &f.Leaver.Device { // it is to be away
				continue
			}
			devices++
			if events := d.Events(); len(events) > 0 && events[len(events)-1].What == "connected" {
				connected++
			}
		}
		text := fmt.Sprintf("%6.1f s  %d values acknowledged, %.0f/s; %d of %d devices connected", time.Since(p.begun).Seconds(), acked, rate, connected, devices)
		p.moves(text)
	}
}

// moves shows the changing line. One that is wider than the terminal would be wiped in part
// only.
func (p *progress) moves(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.asked > 0:
	case p.terminal:
		p.wipe()
		fmt.Fprint(p.out, text[:min(len(text), p.width()-1)])
		p.line = true
	default:
		fmt.Fprintln(p.out, text)
	}
}
