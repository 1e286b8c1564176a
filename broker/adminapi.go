package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/replica"
)

// The environment the client commands read, so that no secret has to stand on a
// command line, which every user of a machine can see.
const (
	envURL    = "MAESTROHUB_URL"
	envClient = "MAESTROHUB_CLIENT_ID"
	envSecret = "MAESTROHUB_CLIENT_SECRET"
)

// adminAPI reaches the API of a running broker: over the socket in its data
// directory, or over the network as an API client.
type adminAPI struct {
	url, id, secret string
	socket, config  string
	http            *http.Client
}

func (a *adminAPI) flags(c *cobra.Command) {
	f := c.PersistentFlags()
	f.StringVar(&a.url, "url", "", "broker to reach over the network, as https://host:8080; needs a client with the scope api_clients:manage ($"+envURL+")")
	f.StringVar(&a.id, "client-id", "", "API client to sign in as, with --url ($"+envClient+")")
	f.StringVar(&a.secret, "secret", "", "its secret; better in $"+envSecret+", where other users of the machine do not see it")
	f.StringVar(&a.socket, "socket", "", "operator's socket of a broker on this machine (default: the data directory's)")
	f.StringVar(&a.config, "config", "", "configuration file of the broker on this machine (default: ./data)")
}

// open chooses the way: what a flag says, then what the environment says, then the
// socket of the broker for trying out.
func (a *adminAPI) open() error {
	if a.url == "" && a.socket == "" && a.config == "" {
		a.url = os.Getenv(envURL)
	}
	if a.url != "" {
		if a.socket != "" {
			return errors.New("--url and --socket: only one may be given")
		}
		if a.id == "" {
			a.id = os.Getenv(envClient)
		}
		if a.secret == "" {
			a.secret = os.Getenv(envSecret)
		}
		if a.id == "" || a.secret == "" {
			return fmt.Errorf("--url %s: needs a client id (--client-id or $%s) and its secret ($%s)", a.url, envClient, envSecret)
		}
		a.url = strings.TrimSuffix(a.url, "/")
		a.http = &http.Client{Timeout: time.Minute}
		return nil
	}
	if a.socket == "" {
		c := trial("")
		if a.config != "" {
			var err error
			if c, err = config.Load(a.config); err != nil {
				return err
			}
		}
		a.socket = replica.AdminSocket(c.DataDir)
		if err := replica.CheckAdminSocket(c.DataDir); err != nil {
			return err
		}
	}
	a.url = "http://broker"
	a.http = &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", a.socket)
	}}}
	return nil
}

// call sends one request and decodes the answer into into, if it is not nil. What
// the broker refuses comes back in its own words.
func (a *adminAPI) call(ctx context.Context, method, path string, body, into any) error {
	var send io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
		send = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, a.url+path, send)
	if err != nil {
		return fmt.Errorf("--url %q: %w", a.url, err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if a.id != "" && a.socket == "" {
		request.SetBasicAuth(a.id, a.secret)
	}
	response, err := a.http.Do(request)
	if err != nil {
		if a.socket != "" {
			return fmt.Errorf("reach the broker at its socket %s: %w (is it running, is this its data directory, and may you open it? --config, --socket or --url choose another)", a.socket, errors.Unwrap(err))
		}
		return fmt.Errorf("reach the broker: %w", err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, 64<<20))
	if err != nil {
		return fmt.Errorf("read the broker's answer: %w", err)
	}
	if response.StatusCode >= 300 {
		var p struct{ Detail string }
		if json.Unmarshal(data, &p) == nil && p.Detail != "" {
			return fmt.Errorf("%s (%s)", p.Detail, response.Status)
		}
		return fmt.Errorf("%s %s: %s", method, path, response.Status)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("read the broker's answer: %w", err)
	}
	return nil
}
