package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"maestrohub.io/uns/tools/interrupt"
	"maestrohub.io/uns/tools/localcluster/control"
)

// Exit statuses, as doc.go has them.
const (
	failed      = 1
	brokenExit  = 3
	interrupted = interrupt.Status
)

var (
	errBroken      = errors.New("a promise was broken")
	errInterrupted = errors.New("interrupted")
)

func main() {
	var remains traces
	first, second, stop := interrupt.Contexts(func() {
		fmt.Fprintln(os.Stderr, "\ndrill: ended at once")
		remains.tell(os.Stderr)
	})
	defer stop()
	err := command(second, &remains).ExecuteContext(first)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "drill:", err)
	remains.tell(os.Stderr)
	switch {
	case errors.Is(err, errBroken):
		os.Exit(brokenExit)
	case errors.Is(err, errInterrupted):
		os.Exit(interrupted)
	}
	os.Exit(failed)
}

// flags are the command line.
type flags struct {
	cluster, kubeconfig, namespace, release string
	mqtt, http                              []string
	tls, insecure                           bool
	ca                                      string
	client, secretFile, version             string
	rate                                    float64
	calm                                    time.Duration
	out                                     string

	hurried context.Context // ends when nobody waits for a verdict any more
	remains *traces
}

func command(hurried context.Context, remains *traces) *cobra.Command {
	o := flags{hurried: hurried, remains: remains}
	c := &cobra.Command{
		Use: "drill <fault>...", Short: "Break an installation on purpose, and say whether every promise was kept",
		Long: "Faults: all, or one or more of " + strings.Join(faultNames(), ", ") + ".\n\n" + listFaults(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("which faults? all, or one or more of %s", strings.Join(faultNames(), ", "))
			}
			return nil
		},
		ValidArgs: append(faultNames(), "all"), SilenceUsage: true, SilenceErrors: true,
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args) },
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return fmt.Errorf("%w; `drill --help` lists what there is", err)
	})
	f := c.Flags()
	f.StringVar(&o.cluster, "cluster", "", "harm the local cluster that make cluster started; another one with =`SOCKET`")
	f.Lookup("cluster").NoOptDefVal = control.Socket()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "harm an installation on Kubernetes, reached with this file")
	f.StringVar(&o.namespace, "namespace", "maestrohub", "namespace of the installation")
	f.StringVar(&o.release, "release", "maestrohub", "Helm release of the installation")
	f.StringSliceVar(&o.mqtt, "mqtt", nil, "host:port where devices connect; several: tried in turn (Kubernetes: found by itself)")
	f.StringSliceVar(&o.http, "http", nil, "base URL of the REST API, such as https://broker:8080; several: tried in turn (Kubernetes: through a port-forward)")
	f.BoolVar(&o.tls, "tls", false, "devices connect with TLS")
	f.StringVar(&o.ca, "ca", "", "file of the certificates to trust (TLS and REST); without: those of this machine")
	f.BoolVar(&o.insecure, "insecure", false, "trust any certificate")
	f.StringVar(&o.client, "client", "", "API client with the scopes api_clients:manage, uns_settings:update and uns:read; or $DRILL_CLIENT")
	f.StringVar(&o.secretFile, "secret-file", "", "file of its secret; or the secret in $DRILL_SECRET")
	f.StringVar(&o.version, "topic-version", "mHv1.0", "what every topic begins with (modules.uns.topicVersion)")
	f.Float64Var(&o.rate, "rate", 20, "values a second of each of the four publishers")
	f.DurationVar(&o.calm, "calm", 5*time.Second, "time without a fault before and after each")
	f.StringVar(&o.out, "out", "drill-report", "where the report goes, without .html and .json")
	return c
}

func listFaults() string {
	var b strings.Builder
	for _, f := range faults {
		fmt.Fprintf(&b, "  %-10s %s\n", f.Name, f.Title)
	}
	return b.String()
}

func (o *flags) run(ctx context.Context, args []string) error {
	list, err := chosen(args)
	if err != nil {
		return err
	}
	if o.rate <= 0 || o.rate > 1000 {
		return fmt.Errorf("--rate %v: more than 0, at most 1000", o.rate)
	}
	if o.calm < 0 {
		return fmt.Errorf("--calm %v: not less than 0", o.calm)
	}
	if err := o.addresses(); err != nil {
		return err
	}
	if err := writable(o.out); err != nil { // better now than after the drill
		return err
	}
	trust, err := o.trust()
	if err != nil {
		return err
	}
	at, err := o.credential()
	if err != nil {
		return err
	}
	say := newProgress(os.Stdout)
	site, at, err := o.open(ctx, at, say)
	if err != nil {
		return err
	}
	defer site.close()
	if at.Client == "" || at.Secret == "" {
		return errors.New("--client and --secret-file (or $DRILL_CLIENT and $DRILL_SECRET): the API client to sign in as")
	}
	d := &drill{hurried: o.hurried, remains: o.remains, site: site, at: at, faults: list, calm: o.calm, version: o.version, every: time.Duration(float64(time.Second) / o.rate),
		rest: &rest{bases: at.HTTP, client: at.Client, secret: at.Secret, http: &http.Client{Transport: &http.Transport{TLSClientConfig: trust}}},
		dial: o.dialer(trust), say: say}
	r, err := d.run(ctx)
	if err != nil && len(r.Promises) == 0 {
		if ctx.Err() != nil {
			return errors.Join(errInterrupted, d.left)
		}
		return err
	}
	if e := r.write(o.out); e != nil {
		return errors.Join(err, e)
	}
	r.print(os.Stdout, o.out)
	switch {
	case err != nil:
		return err
	case len(r.Broken()) > 0:
		return errBroken
	case r.Interrupted:
		return errInterrupted
	}
	return nil
}

// open finds the site and how to reach it.
func (o *flags) open(ctx context.Context, at places, say *progress) (site, places, error) {
	switch {
	case o.cluster != "" && o.kubeconfig != "":
		return nil, at, errors.New("--cluster and --kubeconfig: one of them")
	case o.cluster != "":
		say.event("asking the local cluster at %s where it is; one that still starts answers when it has", o.cluster)
		return openCluster(ctx, o.cluster)
	case o.kubeconfig != "":
		at.MQTT, at.HTTP = o.mqtt, o.http
		return openKubernetes(ctx, o.kubeconfig, o.namespace, o.release, o.tls, at)
	case len(o.mqtt) == 0 || len(o.http) == 0:
		return nil, at, errors.New("where is the installation? --cluster, --kubeconfig, or --mqtt and --http")
	}
	at.MQTT, at.HTTP = o.mqtt, o.http
	p, err := newPerson(os.Stdin, say, strings.Join(o.mqtt, ", "))
	return p, at, err
}

// addresses checks those that were given.
func (o *flags) addresses() error {
	for _, a := range o.mqtt {
		if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "" || strings.Contains(a, "/") {
			return fmt.Errorf("--mqtt %q: must be host:port, such as broker:1883, or broker:8883 with --tls", a)
		}
	}
	for i, a := range o.http {
		u, err := url.Parse(a)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("--http %q: must be a base URL, such as https://broker:8080", a)
		}
		o.http[i] = strings.TrimSuffix(a, "/")
	}
	return nil
}

// writable reports whether the report can be written, and leaves nothing behind.
func writable(path string) error {
	for _, name := range []string{path + ".html", path + ".json"} {
		_, before := os.Stat(name)
		file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		_ = file.Close()
		if before != nil {
			_ = os.Remove(name)
		}
	}
	return nil
}

func (o *flags) credential() (places, error) {
	p := places{Client: o.client, Secret: os.Getenv("DRILL_SECRET")}
	if p.Client == "" {
		p.Client = os.Getenv("DRILL_CLIENT")
	}
	if o.secretFile != "" {
		text, err := os.ReadFile(o.secretFile)
		if err != nil {
			return p, fmt.Errorf("--secret-file: %w", err)
		}
		p.Secret = strings.TrimSpace(string(text))
	}
	return p, nil
}

// trust is whom TLS believes.
func (o *flags) trust() (*tls.Config, error) {
	c := &tls.Config{InsecureSkipVerify: o.insecure}
	if o.ca != "" {
		pem, err := os.ReadFile(o.ca)
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--ca: %s holds no certificate", o.ca)
		}
	}
	return c, nil
}

// dialer opens the connections of devices.
func (o *flags) dialer(trust *tls.Config) func(address string) (net.Conn, error) {
	const patience = 10 * time.Second
	if !o.tls {
		return func(address string) (net.Conn, error) { return net.DialTimeout("tcp", address, patience) }
	}
	return func(address string) (net.Conn, error) {
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", address, trust)
		if err != nil { // a nil *tls.Conn would be no nil net.Conn
			return nil, notTLS(err)
		}
		return conn, nil
	}
}
