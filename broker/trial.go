package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/api"
	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/model"
)

// The start for trying out: no configuration, one workspace, one client.
const (
	trialWorkspace = "plant"
	trialClient    = "demo"
	trialTopic     = "line/1/temperature"
	// trialHost is where it listens unless told: nobody has secured it.
	trialHost = "127.0.0.1"
)

//go:embed trial.txt
var trialText string

// trial is the configuration of a start without one: the defaults, WebSocket on for
// pages from anywhere (a page opened from a file has no origin), the example model.
// It listens on host; "" is trialHost.
func trial(host string) *config.Config {
	c := config.Default()
	if host == "" {
		host = trialHost
	}
	for _, listen := range []*string{&c.Broker.TCPListen, &c.Broker.WebSocket.Listen, &c.HTTP.Listen} {
		*listen = net.JoinHostPort(strings.Trim(host, "[]"), strings.TrimPrefix(*listen, ":"))
	}
	c.Broker.WebSocket.Enabled = true
	c.Broker.WebSocket.AllowedOrigins = []string{"*"}
	c.ModelFile = filepath.Join(c.DataDir, "model.yaml")
	return c
}

// prepareTrial writes the example model where the broker reads it. One that is
// there stays: it may have been edited, and changes are taken while it runs.
func prepareTrial(c *config.Config) error {
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	f, err := os.OpenFile(c.ModelFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("example model: %w", err)
	}
	_, err = f.Write(model.Example())
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("example model: %w", err)
	}
	return nil
}

// clients is what the trial start needs of a running replica.
type clients interface {
	Add(ctx context.Context, c access.Client, secret string) (string, error)
}

// addTrialClient makes the client of the first start and returns its secret, or ""
// if an earlier start made it: a secret is shown once and stored as a hash.
func addTrialClient(ctx context.Context, to clients) (string, error) {
	secret, err := to.Add(ctx, access.Client{ID: trialClient, Workspace: trialWorkspace, Publish: []string{"#"}, Subscribe: []string{"#"}, Scopes: api.Scopes}, "")
	if errors.Is(err, access.ErrExists) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("add API client %s: %w", trialClient, err)
	}
	return secret, nil
}

// printTrial prints what a person needs to paste, with the addresses the broker
// really listens on.
func printTrial(out io.Writer, c *config.Config, secret string, address func(listener string) string) error {
	shown, hint := secret, "Its secret is shown this once; it is in the lines below."
	if secret == "" {
		shown = "SECRET"
		hint = "Its secret was shown by the first start. Put it in place of SECRET below, or make a new one:\n  go run ./broker client rotate " + trialClient
	}
	port := func(listener string) string {
		_, p, err := net.SplitHostPort(address(listener))
		if err != nil {
			return "?"
		}
		return p
	}
	host, option, reach := reachable(address("tcp"))
	_, err := io.WriteString(out, strings.NewReplacer(
		"{client}", trialClient, "{workspace}", trialWorkspace, "{secret}", shown, "{hint}", hint, "{version}", c.TopicVersion,
		"{topic}", trialTopic, "{host}", host, "{-h}", option, "{reach}", reach, "{tcp}", port("tcp"), "{ws}", port("ws"), "{path}", c.Broker.WebSocket.Path, "{http}", port("http"),
		"{data}", c.DataDir, "{model}", c.ModelFile,
	).Replace(trialText))
	return err
}

// reachable says of a listener's address what to connect to, as a host and as
// mosquitto's option (none: what it does by itself), and who can.
func reachable(address string) (host, option, who string) {
	h, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(h)
	switch {
	case err == nil && ip.IsLoopback() && (h == trialHost || h == "::1"):
		return "localhost", "", "Only this machine can reach it: it listens on " + h + ". For others too: go run ./broker --host 0.0.0.0 (make run LISTEN=0.0.0.0)."
	case err == nil && !ip.IsUnspecified():
		return urlHost(h), " -h " + h, "It listens on " + h + ": whoever reaches that address reaches it, without encryption."
	}
	return "localhost", "", "It listens on every address of this machine: whoever reaches one of them reaches it, without encryption."
}

func urlHost(h string) string {
	if strings.Contains(h, ":") {
		return "[" + h + "]"
	}
	return h
}
