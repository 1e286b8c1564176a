package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"maestrohub.io/uns/broker/config"
)

func healthcheckCommand(out io.Writer) *cobra.Command {
	var url, file string
	var live bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "healthcheck",
		Short: "Ask a running broker whether it is ready; exit status 0 if it is",
		Long:  "Ask a running broker whether it is ready (or, with --live, alive). For a container's probe: an image without a shell needs no curl.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path := "/health/ready"
			if live {
				path = "/health/live"
			}
			if url == "" {
				base, err := localURL(file)
				if err != nil {
					return err
				}
				url = base + path
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return healthcheck(ctx, out, url)
		},
	}
	c.Flags().StringVar(&url, "url", "", "address to ask instead of the configuration's own, with its path")
	c.Flags().StringVar(&file, "config", "", "configuration file that says where the broker listens (default: the default port)")
	c.Flags().BoolVar(&live, "live", false, "ask whether it is alive, not whether it is ready")
	c.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "longest wait for the answer")
	return c
}

// localURL is where the broker of a configuration listens on this machine.
func localURL(file string) (string, error) {
	c := config.Default()
	if file != "" {
		var err error
		if c, err = config.Load(file); err != nil {
			return "", err
		}
	}
	host, port, err := net.SplitHostPort(c.HTTP.Listen)
	if err != nil {
		return "", fmt.Errorf("http.listen %q: %w", c.HTTP.Listen, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	scheme := "http"
	if c.HTTP.TLS.CertFile != "" {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, port), nil
}

func healthcheck(ctx context.Context, out io.Writer, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("address %q: %w", url, err)
	}
	// The certificate is made for the name that devices use, not for localhost;
	// nothing secret is sent and the answer grants nothing.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // as the comment says
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	text := strings.TrimSpace(string(body))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", url, response.Status, text)
	}
	_, err = fmt.Fprintln(out, text)
	return err
}
