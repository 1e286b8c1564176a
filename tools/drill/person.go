package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
)

// person is a site that the person at the keyboard harms.
type person struct {
	in    *bufio.Reader
	out   io.Writer
	where string
}

func (p *person) name() string { return p.where }
func (p *person) close() error { return nil }

func (p *person) harm(ctx context.Context, f fault, replica string) (string, func(context.Context) error, error) {
	if err := p.wait(ctx, on(f.Ask, replica)+"\nPress Enter at that moment"); err != nil {
		return "", nil, err
	}
	var heal func(context.Context) error
	if f.Undo != "" {
		heal = func(ctx context.Context) error {
			return p.wait(ctx, on(f.Undo, replica)+"\nPress Enter once it is done")
		}
	}
	return on(f.Ask, replica), heal, nil
}

// wait prints a request and waits for a line.
func (p *person) wait(ctx context.Context, text string) error {
	fmt.Fprintf(p.out, "\n  ➜ %s … ", text)
	line := make(chan error, 1)
	go func() {
		_, err := p.in.ReadString('\n')
		line <- err
	}()
	select {
	case err := <-line:
		if err != nil {
			return fmt.Errorf("nobody is there to do it (%w): run in a terminal, or give --cluster or --kubeconfig", err)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
