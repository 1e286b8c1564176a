package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
)

// tried is a running broker with an API client, whose id and secret are in the
// environment.
func tried(t *testing.T) *broker {
	t.Helper()
	b := startTrial(t, t.TempDir())
	secret := regexp.MustCompile(`-P (\S+)`).FindStringSubmatch(b.out.String())
	if secret == nil {
		t.Fatalf("no secret in\n%s", b.out.String())
	}
	t.Setenv(envClient, trialClient)
	t.Setenv(envSecret, secret[1])
	return b
}

// address is where the broker said that it listens.
func (b *broker) address(name string) string {
	ports := regexp.MustCompile(`MQTT on port (?P<tcp>\d+), .*HTTP on (?P<http>\d+);`)
	found := ports.FindStringSubmatch(b.out.String())
	return net.JoinHostPort(trialHost, found[ports.SubexpIndex(name)])
}

func TestTryDoesWhatADeviceDoesAndSaysSo(t *testing.T) {
	b := tried(t)
	out, err := execute(t, "", "try", "mqtt://"+b.address("tcp"), "--http", "http://"+b.address("http"), "--topic", "try/it")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i, want := range []string{"connect to mqtt://", "subscribe to mHv1.0/plant/try/it", "publish to mHv1.0/plant/_ingress/demo/try/it at QoS 1", "get its live copy", "read it back from history"} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], "ok ") || !strings.Contains(lines[i], want) {
			t.Errorf("step %d should be %q:\n%s", i+1, want, out)
		}
	}
}

func TestTryPublishesAtQoS2(t *testing.T) {
	b := tried(t)
	out, err := execute(t, "", "try", "mqtt://"+b.address("tcp")+"/", "--qos", "2")
	if err != nil || !strings.Contains(out, "publish to mHv1.0/plant/_ingress/demo/try at QoS 2\n") || !strings.Contains(out, "get its live copy\n") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := execute(t, "", "try", "mqtt://"+b.address("tcp"), "--qos", "2", "--topic", trialTopic); err == nil || !strings.Contains(err.Error(), "PUBREC: ") {
		t.Errorf("refused at QoS 2: %v\n%s", err, out)
	}
}

func TestTrySaysWhichStepFailedAndWhy(t *testing.T) {
	b := tried(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	at := "mqtt://" + b.address("tcp")
	for _, c := range []struct {
		name      string
		arguments []string
		secret    string
		want      string
	}{
		{"nobody listens", []string{"mqtt://" + closed.Addr().String()}, "", "connect to mqtt://.*nobody listens there .*connection refused.*MQTT is on 1883, with TLS on 8883"},
		{"not an address", []string{"tcp://host"}, "", `^try: "tcp://host" must be mqtt://host:port or mqtts://host:port`},
		{"no scheme", []string{b.address("tcp")}, "", `^try: "127.*" must be mqtt://host:port`},
		{"a user in the address", []string{"mqtt://a:b@host"}, "", `^try: the address must be mqtt://host alone: .*\$` + envSecret},
		{"more than an address", []string{"mqtt://host:1883/mqtt"}, "", `^try: "mqtt://host:1883/mqtt" must end with the port: mqtt://host:1883$`},
		{"a filter", []string{at, "--topic", "line/#"}, "", `^try: --topic "line/#": must name one topic`},
		{"no topic", []string{at, "--topic", ""}, "", `^try: --topic "": must name one topic`},
		{"QoS 0", []string{at, "--qos", "0"}, "", `^try: --qos 0: must be 1 or 2`},
		{"no QoS", []string{at, "--qos", "3"}, "", `^try: --qos 3: must be 1 or 2`},
		{"time backwards", []string{at, "--timeout", "-1s", "--wait", "-2s"}, "", `^try: --timeout -1s: must be longer than 0\n--wait -2s: must not be less`},
		{"no scheme of HTTP", []string{at, "--http", "localhost:8080"}, "", `^try: --http "localhost:8080": must be http://host:port or https://`},
		{"a wrong secret", []string{at}, "not the secret", `connect to .*: CONNACK: Bad User Name or Password \(0x86\): there is no such API client, its secret is another one \(\$` + envSecret + `\), or it is disabled`},
		{"another's workspace", []string{at, "--workspace", "other"}, "", `subscribe to mHv1.0/other/try: SUBACK: .*0x87.*: workspace "other" is not this client's; subscribe below mHv1.0/plant/ \(--workspace`},
		{"a value the model refuses", []string{at, "--topic", trialTopic}, "", `publish to .*: PUBACK: .*0x83`},
		{"TLS where there is none", []string{"mqtts://" + b.address("tcp")}, "", "connect to mqtts://.*the port does not speak TLS .*: mqtt://"},
		{"no TLS where there is", []string{"mqtt://" + encrypted(t)}, "", "does not answer a CONNECT .*: is it a TLS port, which wants mqtts://"},
		{"a certificate of nobody's", []string{"mqtts://" + encrypted(t)}, "", "certificate signed by unknown authority.*: --ca-file names"},
		{"no such CA", []string{at, "--ca-file", "nowhere"}, "", "--ca-file: open nowhere"},
		{"a certificate without its key", []string{at, "--cert-file", "tls.crt"}, "", "--cert-file and --key-file: one without the other"},
		{"no address", nil, "", "name the broker.*mqtt://localhost:1883"},
		{"no time", []string{at, "--timeout", "1ns"}, "", `connect to .*: not within 1ns \(--timeout\)`},
		{"nobody answers", []string{"mqtt://" + silent(t), "--timeout", "50ms"}, "", `connect to .*: not within 50ms \(--timeout\)`},
		{"the HTTP port", []string{"mqtt://" + b.address("http")}, "", "does not speak MQTT .*: is it the HTTP port"},
		{"nobody listens for HTTP", []string{at, "--http", "http://" + closed.Addr().String()}, "", "read it back from history: --http http://127.*connection refused"},
		{"the MQTT port for HTTP", []string{at, "--http", "http://" + b.address("tcp")}, "", "the port does not speak HTTP .*https://"},
		{"HTTPS where there is none", []string{at, "--http", "https://" + b.address("http")}, "", "the port does not speak TLS .*: http://127"},
		{"another service", []string{at, "--http", page(t)}, "", "--http http://127.*: no broker answers there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.secret != "" {
				t.Setenv(envSecret, c.secret)
			}
			out, err := execute(t, "", append([]string{"try"}, c.arguments...)...)
			if err == nil || !regexp.MustCompile(c.want).MatchString(err.Error()) {
				t.Errorf("%v, want %s\n%s", err, c.want, out)
			}
		})
	}
	t.Setenv(envSecret, "")
	if _, err := execute(t, "", "try", at); err == nil || !strings.Contains(err.Error(), "$"+envSecret) {
		t.Errorf("without a secret: %v, want the variable named", err)
	}
}

func TestTrySaysThatItWasInterrupted(t *testing.T) {
	t.Setenv(envClient, trialClient)
	t.Setenv(envSecret, "not looked at")
	ctx, interrupt := context.WithCancel(t.Context())
	reached := make(chan struct{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		defer close(reached)
		if conn, err := l.Accept(); err == nil {
			_, _ = conn.Read(make([]byte, 1)) // its CONNECT
			interrupt()
			_, _ = io.Copy(io.Discard, conn)
			conn.Close()
		}
	}()
	c := tryCommand(io.Discard)
	c.SetArgs([]string{"mqtt://" + l.Addr().String()})
	c.SilenceErrors, c.SilenceUsage = true, true
	if err := c.ExecuteContext(ctx); err == nil || !strings.HasSuffix(err.Error(), ": interrupted") {
		t.Errorf("%v, want that it was interrupted", err)
	}
	<-reached
}

// silent is the address of a port that takes connections and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// page is the address of a web server that is no broker.
func page(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>hello</html>") }))
	t.Cleanup(s.Close)
	return s.URL
}

// encrypted is the address of a port that speaks TLS, with a certificate nobody trusts.
func encrypted(t *testing.T) string {
	t.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func TestTryWaitsForTheNetworkIfTold(t *testing.T) {
	b := tried(t)
	opened, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := opened.Addr().String()
	opened.Close()
	result := make(chan error, 1)
	go func() {
		_, err := execute(t, "", "try", "mqtt://"+address, "--topic", "try/it", "--wait", "20s")
		result <- err
	}()
	// Two attempts have found nobody there when the port opens.
	<-time.After(2 * tryAgain)
	proxy, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	go func() {
		in, err := proxy.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", b.address("tcp"))
		if err != nil {
			in.Close()
			return
		}
		go func() { _, _ = io.Copy(out, in); out.Close() }()
		_, _ = io.Copy(in, out)
		in.Close()
	}()
	if err := <-result; err != nil {
		t.Error(err)
	}
}
