package launch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func start(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start(Spec{Name: "script", Path: "/bin/sh", Args: []string{"-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func TestWaitForReturnsWhatWasPrinted(t *testing.T) {
	p := start(t, "echo port=17; cat")
	m, err := p.WaitFor(t.Context(), regexp.MustCompile(`port=(\d+)`))
	if err != nil || m[1] != "17" {
		t.Fatalf("WaitFor gave %q, %v; want port 17", m, err)
	}
}

func TestWaitForSaysWhatAnEndedProgramPrinted(t *testing.T) {
	p := start(t, "echo sorry; exit 3")
	_, err := p.WaitFor(t.Context(), regexp.MustCompile("ready"))
	if err == nil || !strings.Contains(err.Error(), "sorry") || !strings.Contains(err.Error(), "exit status 3") {
		t.Fatalf("error %v, want the output and the exit status in it", err)
	}
}

func TestLinesComeInOrderAndEndWithTheProgram(t *testing.T) {
	p, err := Start(Spec{Name: "script", Path: "/bin/sh", Args: []string{"-c", `while read -r line; do echo "got $line"; done; printf last`}, Interactive: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	if err := p.Send("one\n"); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range p.Lines() {
		if lines = append(lines, line); len(lines) == 1 {
			if err := p.Send("two\n"); err != nil {
				t.Fatal(err)
			}
			if err := p.EndInput(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := strings.Join(lines, ","); got != "got one,got two,last" {
		t.Errorf("lines %q", got)
	}
}

func TestKillReachesChildren(t *testing.T) {
	p := start(t, "sleep 300 & echo child=$!; wait")
	m, err := p.WaitFor(t.Context(), regexp.MustCompile(`child=(\d+)`))
	if err != nil {
		t.Fatal(err)
	}
	p.Kill()
	// The orphan's end is seen by whoever inherits it; until then it may be a zombie.
	deadline := time.Now().Add(5 * time.Second)
	for {
		status, err := os.ReadFile("/proc/" + m[1] + "/stat")
		if err != nil || strings.Contains(string(status), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("child %s of a killed program is still alive", m[1])
		}
	}
}

func TestStopKillsWhatIgnoresTheSignal(t *testing.T) {
	p := start(t, "trap '' TERM; echo up; while :; do sleep 1; done")
	if _, err := p.WaitFor(t.Context(), regexp.MustCompile("up")); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(50 * time.Millisecond); err == nil {
		t.Error("Stop of a program that ignores SIGTERM returned no error")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := p.Wait(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("after Stop, Wait gave %v; want the kill", err)
	}
}

func TestReservedPortsAreFreeAndDiffer(t *testing.T) {
	seen := map[int]bool{}
	for range 5 {
		ports, err := Reserve(4)
		if err != nil {
			t.Fatal(err)
		}
		for _, port := range ports {
			if seen[port] {
				t.Errorf("port %d handed out twice", port)
			}
			seen[port] = true
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err != nil {
				t.Errorf("reserved port %d is taken: %v", port, err)
				continue
			}
			l.Close()
		}
	}
}

func TestCertificatesAreValidOnLoopback(t *testing.T) {
	a, err := NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := a.IssueTo(dir, "broker"); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(dir+"/tls.crt", dir+"/tls.key")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.PEM)
	for _, name := range []string{"localhost", "127.0.0.1"} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
			t.Errorf("verify for %s: %v", name, err)
		}
	}
}
