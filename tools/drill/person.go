package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// person is a site that the person at the keyboard harms.
type person struct {
	lines <-chan string // what they type, until there is no more
	say   *progress
	where string
}

var (
	errNobody  = errors.New("nobody is there to break anything: run in a terminal, or give --cluster or --kubeconfig")
	errGone    = errors.New("nobody answers any more (end of input)")
	errLeftOut = errors.New("by the person who was asked")
)

// newPerson reads the answers from a file: a terminal, or a pipe that something else
// writes to.
func newPerson(in *os.File, say *progress, where string) (*person, error) {
	about, err := in.Stat()
	if err != nil || about.Mode()&os.ModeCharDevice != 0 && !term.IsTerminal(int(in.Fd())) { // closed, or /dev/null
		return nil, errNobody
	}
	return &person{lines: lines(in), say: say, where: where}, nil
}

// lines reads lines, one ahead.
func lines(in io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(in); s.Scan(); {
			lines <- strings.TrimSpace(s.Text())
		}
	}()
	return lines
}

func (p *person) name() string { return p.where }
func (p *person) close() error { return nil }

func (p *person) harm(ctx context.Context, f fault, replica string) (string, func(context.Context) error, error) {
	ask := on(f.Ask, replica)
	if err := p.wait(ctx, ask, "Enter at that moment; s and Enter leaves it out", true); err != nil {
		return "", nil, err
	}
	if f.Undo == "" {
		return ask, nil, nil
	}
	undo := on(f.Undo, replica)
	return ask, func(context.Context) error {
		if ctx.Err() != nil { // interrupted: nobody waits for it any more
			p.say.ask("%s", undo)
			return nil
		}
		return p.wait(ctx, undo, "Enter once it is done", false)
	}, nil
}

// wait asks for something and waits until it is said to be done.
func (p *person) wait(ctx context.Context, what, how string, mayLeave bool) error {
	// What is typed is not to be wiped by the line that changes.
	defer p.say.still()()
	p.say.ask("%s\n    %s.", what, how)
	for {
		select {
		case line, ok := <-p.lines:
			switch {
			case !ok:
				return errGone
			case line == "":
				return nil
			case mayLeave && line == "s":
				return errLeftOut
			}
			p.say.ask("%q is no answer. %s\n    %s.", line, what, how)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
