package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"maestrohub.io/uns/broker/mqtt"
)

// attempt is what broker try does: a device's whole job once, and a subscriber's.
type attempt struct {
	broker, http              string // mqtt(s)://host:port; http(s)://host:port, "" = no reading back
	id, secret                string
	version, workspace        string
	topic                     string
	qos                       int
	caFile, certFile, keyFile string
	wait, timeout             time.Duration
	out                       io.Writer
}

func tryCommand(out io.Writer) *cobra.Command {
	a := attempt{out: out}
	c := &cobra.Command{
		Use:   "try URL",
		Short: "Connect, subscribe, publish a value, get its live copy and read it back from history",
		Long: "Do what devices do, once, with a running broker: connect to URL (mqtt://host:1883 or mqtts://host:8883), subscribe, publish a value at QoS 1 or 2,\n" +
			"wait for its acknowledgment and its live copy and, with --http, read it back from history. Exit status 0 if all of it worked.\n" +
			"The API client and its secret come from $" + envClient + " and $" + envSecret + ".",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("try: name the broker, and only it: broker try mqtt://localhost:1883, or mqtts://host:8883 for TLS")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			a.broker, a.id, a.secret = args[0], os.Getenv(envClient), os.Getenv(envSecret)
			if a.id == "" || a.secret == "" {
				return fmt.Errorf("try: needs an API client in $%s and its secret in $%s", envClient, envSecret)
			}
			if err := a.check(); err != nil {
				return fmt.Errorf("try: %w", err)
			}
			return a.run(cmd.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&a.http, "http", "", "HTTP address to read the value back from, as http://host:8080; the API client needs the scope uns:read")
	f.StringVar(&a.workspace, "workspace", trialWorkspace, "workspace of the API client")
	f.StringVar(&a.topic, "topic", "try", "topic to publish to, below the client's inbox")
	f.IntVar(&a.qos, "qos", 1, "QoS to publish and subscribe at: 1 or 2")
	f.StringVar(&a.version, "topic-version", "mHv1.0", "first level of every topic (topicVersion)")
	f.StringVar(&a.caFile, "ca-file", "", "PEM certificates that sign the broker's (default: the system's)")
	f.StringVar(&a.certFile, "cert-file", "", "PEM certificate to show, where the broker wants one")
	f.StringVar(&a.keyFile, "key-file", "", "its PEM private key")
	f.DurationVar(&a.wait, "wait", 0, "how long to go on trying where nobody can be reached: a new pod's network takes a moment")
	f.DurationVar(&a.timeout, "timeout", 30*time.Second, "longest time for all of it")
	return c
}

// check says what cannot work, before anybody is asked.
func (a *attempt) check() error {
	var wrong []error
	if _, err := brokerURL(a.broker); err != nil {
		wrong = append(wrong, err)
	}
	if u, err := url.Parse(a.http); a.http != "" && (err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https") {
		wrong = append(wrong, fmt.Errorf("--http %q: must be http://host:port or https://host:port", a.http))
	}
	if a.topic == "" || strings.ContainsAny(a.topic, "+#") {
		wrong = append(wrong, fmt.Errorf("--topic %q: must name one topic, without + and #: a value is published to it", a.topic))
	}
	if a.qos != 1 && a.qos != 2 {
		wrong = append(wrong, fmt.Errorf("--qos %d: must be 1 or 2; at QoS 0 nothing is acknowledged", a.qos))
	}
	if a.timeout <= 0 {
		wrong = append(wrong, fmt.Errorf("--timeout %v: must be longer than 0", a.timeout))
	}
	if a.wait < 0 {
		wrong = append(wrong, fmt.Errorf("--wait %v: must not be less than 0", a.wait))
	}
	return errors.Join(wrong...)
}

// run does one step after the other and says of each how long it took.
func (a *attempt) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	security, err := a.tls()
	if err != nil {
		return err
	}
	token := rand.Text()
	var d *device
	steps := []struct {
		what string
		do   func() error
	}{
		{"connect to " + a.broker + " as " + a.id, func() error {
			err := a.reach(ctx, func() (err error) {
				d, err = dialDevice(ctx, a.broker, security)
				return err
			})
			if err != nil {
				return err
			}
			return d.connect("try-"+strings.ToLower(token[:12]), a.id, a.secret)
		}},
		{"subscribe to " + a.data(), func() error {
			err := d.subscribe(a.data(), byte(a.qos))
			if errors.Is(err, mqtt.NotAuthorized) {
				return fmt.Errorf("%w (--workspace, --topic and --topic-version make what is asked for)", err)
			}
			return err
		}},
		{fmt.Sprintf("publish to %s at QoS %d", a.inbox(), a.qos), func() error { return d.publish(a.inbox(), []byte(`"`+token+`"`), byte(a.qos)) }},
		{"get its live copy", func() error { return d.receive(a.data(), []byte(token)) }},
		{"read it back from history", func() error {
			return a.reach(ctx, func() error { return a.readBack(ctx, security, token) })
		}},
	}
	if a.http == "" {
		steps = steps[:len(steps)-1]
	}
	defer func() { d.close() }()
	for _, s := range steps {
		began := time.Now()
		if err := s.do(); err != nil {
			switch ctx.Err() { // what failed by that says less
			case context.Canceled:
				return fmt.Errorf("%s: interrupted", s.what)
			case context.DeadlineExceeded:
				return fmt.Errorf("%s: not within %v (--timeout)", s.what, a.timeout)
			}
			return fmt.Errorf("%s: %w", s.what, err)
		}
		if _, err := fmt.Fprintf(a.out, "ok  %7.1f ms  %s\n", float64(time.Since(began).Microseconds())/1e3, s.what); err != nil {
			return err
		}
	}
	return nil
}

// tryAgain is how long reach waits between two attempts.
const tryAgain = 250 * time.Millisecond

// reach tries to connect for as long as --wait says. What was reached and refused is
// not tried again.
func (a *attempt) reach(ctx context.Context, connect func() error) error {
	end := time.Now().Add(a.wait)
	for {
		err := connect()
		var failed *net.OpError
		if err == nil || !errors.As(err, &failed) || failed.Op != "dial" || time.Now().Add(tryAgain).After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(tryAgain):
		}
	}
}

func (a *attempt) data() string { return a.version + "/" + a.workspace + "/" + a.topic }

func (a *attempt) inbox() string {
	return a.version + "/" + a.workspace + "/_ingress/" + a.id + "/" + a.topic
}

func (a *attempt) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.caFile != "" {
		pem, err := os.ReadFile(a.caFile)
		if err != nil {
			return nil, fmt.Errorf("--ca-file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--ca-file %s: holds no certificate", a.caFile)
		}
	}
	if (a.certFile == "") != (a.keyFile == "") {
		return nil, errors.New("--cert-file and --key-file: one without the other")
	}
	if a.certFile != "" {
		pair, err := tls.LoadX509KeyPair(a.certFile, a.keyFile)
		if err != nil {
			return nil, fmt.Errorf("--cert-file, --key-file: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// readBack finds the value in history.
func (a *attempt) readBack(ctx context.Context, security *tls.Config, token string) error {
	at := strings.TrimSuffix(a.http, "/") + "/api/v1/uns/" + url.PathEscape(a.workspace) + "/history?" +
		url.Values{"topic": {a.topic}, "order": {"newest"}, "limit": {"10"}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return fmt.Errorf("--http %q: %w", a.http, err)
	}
	request.SetBasicAuth(a.id, a.secret)
	transport := &http.Transport{TLSClientConfig: security}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if asked := (*url.Error)(nil); errors.As(err, &asked) {
		return fmt.Errorf("--http %s: %w", a.http, notHTTP(request.URL, asked.Err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		var problem struct{ Detail string }
		if json.Unmarshal(body, &problem) == nil && problem.Detail != "" {
			body = []byte(problem.Detail)
		}
		return fmt.Errorf("--http %s: %s: %s", a.http, response.Status, bytes.TrimSpace(body))
	}
	var page struct {
		Values []struct{ Value json.RawMessage }
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return fmt.Errorf("--http %s: no broker answers there: %w", a.http, err)
	}
	for _, v := range page.Values {
		if bytes.Contains(v.Value, []byte(token)) {
			return nil
		}
	}
	return errors.New("the value is not among the newest of its topic")
}

// notHTTP explains how a request ends at a port that speaks something else.
func notHTTP(u *url.URL, err error) error {
	switch text := err.Error(); {
	case strings.Contains(text, "server gave HTTP response to HTTPS client"):
		return fmt.Errorf("the port does not speak TLS (%w): http://%s", err, u.Host)
	case errors.Is(err, io.EOF), strings.Contains(text, "malformed HTTP"):
		return fmt.Errorf("the port does not speak HTTP (%w): is it a TLS port, which wants https://, or MQTT's?", err)
	}
	return notTLS(u, err)
}

// refused is a reason code that is not a success, as an error.
func refused(what string, code mqtt.ReasonCode, why string) error {
	if code < 0x80 {
		return nil
	}
	if why != "" {
		why = ": " + why
	}
	return fmt.Errorf("%s: %w%s", what, code, why)
}
