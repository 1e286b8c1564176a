// Command toolbox is what a test runs inside a pod, where there is no other program:
//
//	toolbox wait                 do nothing until told to end
//	toolbox dial HOST:PORT       exit 0 if a connection opens within 3 s
//	toolbox get URL              print status and body; https is not verified
//	toolbox lookup NAME          print the addresses of a name
//	toolbox serve ADDRESS TEXT   answer every HTTP request with TEXT and who asked
//
// TIMEOUT in the environment ("10s") takes the place of the 3 s.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "toolbox:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 1 && args[0] == "wait" {
		<-ctx.Done()
		return nil
	}
	if len(args) == 3 && args[0] == "serve" {
		return serve(ctx, args[1], args[2])
	}
	if len(args) != 2 {
		return fmt.Errorf("unknown command %q; there are wait, dial HOST:PORT, get URL, lookup NAME, serve ADDRESS TEXT", args)
	}
	timeout := 3 * time.Second
	if text := os.Getenv("TIMEOUT"); text != "" {
		var err error
		if timeout, err = time.ParseDuration(text); err != nil {
			return fmt.Errorf("TIMEOUT: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	switch args[0] {
	case "dial":
		c, err := new(net.Dialer).DialContext(ctx, "tcp", args[1])
		if err != nil {
			return err
		}
		fmt.Println(c.LocalAddr(), "to", c.RemoteAddr())
		return c.Close()
	case "get":
		return get(ctx, args[1])
	case "lookup":
		addresses, err := net.DefaultResolver.LookupHost(ctx, args[1])
		if err != nil {
			return err
		}
		fmt.Println(strings.Join(addresses, "\n"))
		return nil
	}
	return fmt.Errorf("unknown command %q", args[0])
}

func get(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	// Whom it reaches is the test's concern, not who that claims to be.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	fmt.Println(response.StatusCode)
	_, err = io.Copy(os.Stdout, response.Body)
	return err
}

func serve(ctx context.Context, address, text string) error {
	server := &http.Server{Addr: address, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s\n%s\n", text, r.RemoteAddr)
	})}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		return err
	}
	return nil
}
