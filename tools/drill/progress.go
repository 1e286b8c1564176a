package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"maestrohub.io/uns/tests/device/fleet"
)

// progress says what goes on: a line for each event, and on a terminal a last line that
// changes.
type progress struct {
	out      io.Writer
	terminal bool
	begun    time.Time

	mu   sync.Mutex
	line bool // the last line is the changing one
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
		p.mu.Lock()
		p.wipe()
		if p.terminal {
			fmt.Fprint(p.out, text)
			p.line = true
		} else {
			fmt.Fprintln(p.out, text)
		}
		p.mu.Unlock()
	}
}
