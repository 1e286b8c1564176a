package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/launch"
)

// The drill on a real local cluster, as a person does it: by the commands' names.
func TestADrillOnALocalClusterKeepsEveryPromise(t *testing.T) {
	dir := t.TempDir()
	built := func(name string) string {
		t.Helper()
		path, err := launch.Build("", "./tools/"+name, name)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	socket := filepath.Join(dir, "s")
	cluster := harness.Program(t, launch.Spec{Name: "localcluster", Path: built("localcluster"),
		Args: []string{"up", "--socket", socket, "--member-ttl", "5s", "--binary", harness.Binary(t)}})
	starting, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if _, err := cluster.WaitFor(starting, regexp.MustCompile("Break it")); err != nil {
		t.Fatal(err)
	}

	// The check of the local cluster leaves no session, also when it is interrupted.
	check, err := launch.Start(launch.Spec{Name: "localcluster check", Path: built("localcluster"), Args: []string{"check", "--socket", socket}})
	if err != nil {
		t.Fatal(err)
	}
	harness.WaitFor(t, check, "publish on")
	harness.Eventually(t, "the sessions of the check are there", func() (bool, string) {
		return sessionsOf(t, socket, "check-") == 8, fmt.Sprint(sessionsOf(t, socket, "check-"))
	})
	if err := check.Signal(os.Interrupt.(syscall.Signal)); err != nil {
		t.Fatal(err)
	}
	checked, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := check.Wait(checked); err != nil || !strings.Contains(check.Output(), "nothing lost") {
		t.Errorf("localcluster check: %v\n%s", err, check.Output())
	}
	harness.Eventually(t, "no session of the check is left", func() (bool, string) {
		return sessionsOf(t, socket, "check-") == 0, fmt.Sprint(sessionsOf(t, socket, "check-"))
	})

	drill := built("drill")
	run := func(want int, args ...string) string {
		t.Helper()
		p, err := launch.Start(launch.Spec{Name: "drill", Path: drill, Dir: dir, Args: args})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		err = p.Wait(ctx)
		if ctx.Err() != nil {
			p.Kill()
		}
		code := 0
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatalf("drill %v: %v\n%s", args, err, p.Output())
		}
		if code != want {
			t.Fatalf("drill %v exited %d, want %d:\n%s", args, code, want, p.Output())
		}
		return p.Output()
	}
	said := run(0, "kill", "nats-kill", "mesh-cut", "--cluster="+socket, "--calm", "1s")
	var r Report
	text, err := os.ReadFile(filepath.Join(dir, "drill-report.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Promises {
		if p.Verdict != kept {
			t.Errorf("promise %s: %s: %v", p.ID, p.Verdict, p.Evidence)
		}
	}
	if len(r.Faults) != 3 || len(r.Wills) != 1 || !r.Wills[0].Left || sum(r.Acknowledged) == 0 || sum(r.Delivered) == 0 {
		t.Errorf("report: %d faults, wills %v, %d acknowledged, %d delivered\n%s", len(r.Faults), r.Wills, sum(r.Acknowledged), sum(r.Delivered), said)
	}
	t.Logf("%s", said)

	// Interrupted in the middle of a fault, it heals it.
	p, err := launch.Start(launch.Spec{Name: "drill", Path: drill, Dir: dir, Args: []string{"nats-cut", "--cluster=" + socket, "--calm", "1s"}})
	if err != nil {
		t.Fatal(err)
	}
	harness.WaitFor(t, p, "Cut the replica")
	if err := p.Signal(os.Interrupt.(syscall.Signal)); err != nil {
		t.Fatal(err)
	}
	ending, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := p.Wait(ending); err == nil || !strings.Contains(err.Error(), fmt.Sprint("exit status ", interrupted)) {
		t.Errorf("interrupted, the drill ended with %v, want status %d:\n%s", err, interrupted, p.Output())
	}
	broken, _, err := openCluster(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	if status, err := broken.do(t.Context(), "status"); err != nil || strings.Contains(status, "cut") {
		t.Errorf("after an interrupt: %v\n%s", err, status)
	}

	// Nothing of it is left: its API client is gone, and with it every session.
	for _, base := range reach(t, socket).HTTP {
		api := rest{bases: []string{base}, client: reach(t, socket).Client, secret: reach(t, socket).Secret, http: http.DefaultClient}
		var list struct{ Clients []struct{ ID string } }
		if err := api.do(t.Context(), "GET", "/api/v1/api-clients", nil, &list); err != nil {
			t.Fatal(err)
		}
		for _, c := range list.Clients {
			if strings.HasPrefix(c.ID, "drill-") {
				t.Errorf("the API client %s is left", c.ID)
			}
		}
		harness.Eventually(t, "no session of the drill is left", func() (bool, string) {
			o, err := api.overview(t.Context())
			if err != nil || o.Shared == nil {
				return false, fmt.Sprint(err)
			}
			for _, s := range o.Shared.Sessions {
				if strings.HasPrefix(s.ClientID, "drill-") {
					return false, s.ClientID
				}
			}
			return true, ""
		})
	}

	t.Run("bad input is named", func(t *testing.T) {
		if said := run(failed, "explode", "--cluster="+socket); !strings.Contains(said, `no fault "explode"`) {
			t.Errorf("a bad fault: %s", said)
		}
		if said := run(failed, "kill", "--cluster="+socket+"-not"); !strings.Contains(said, "no local cluster listens") {
			t.Errorf("no cluster: %s", said)
		}
		if said := run(failed, "kill"); !strings.Contains(said, "--cluster, --kubeconfig, or --mqtt and --http") {
			t.Errorf("nothing named: %s", said)
		}
		for what, args := range map[string][]string{
			"no REST API": {"--mqtt", "127.0.0.1:1", "--http", "http://127.0.0.1:1"},
			"no MQTT":     {"--mqtt", "127.0.0.1:1", "--http", reach(t, socket).HTTP[0]},
		} {
			t.Setenv("DRILL_CLIENT", reach(t, socket).Client)
			t.Setenv("DRILL_SECRET", reach(t, socket).Secret)
			if said := run(failed, append([]string{"kill"}, args...)...); !strings.Contains(said, "127.0.0.1:1: connect: connection refused") {
				t.Errorf("%s: %s", what, said)
			}
		}
		if said := run(failed, "kill", "--tls", "--mqtt", reach(t, socket).MQTT[0], "--http", reach(t, socket).HTTP[0]); !strings.Contains(said, "the port does not speak TLS") || !strings.Contains(said, reach(t, socket).MQTT[0]) {
			t.Errorf("TLS where there is none: %s", said)
		}
		if said := run(failed, "kill", "--mqtt", strings.TrimPrefix(reach(t, socket).HTTP[0], "http://"), "--http", reach(t, socket).HTTP[0]); !strings.Contains(said, "is no MQTT") && !strings.Contains(said, "does not answer a CONNECT") {
			t.Errorf("another protocol: %s", said)
		}
		at := reach(t, socket)
		secret := filepath.Join(dir, "secret")
		if err := os.WriteFile(secret, []byte("wrong\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if said := run(failed, "kill", "--mqtt", at.MQTT[0], "--http", at.HTTP[0], "--client", at.Client, "--secret-file", secret); !strings.Contains(said, "the credential is not valid") {
			t.Errorf("a wrong secret: %s", said)
		}
	})
}

func reach(t *testing.T, socket string) places {
	t.Helper()
	_, at, err := openCluster(context.Background(), socket)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// sessionsOf counts the saved sessions whose client id begins with a prefix.
func sessionsOf(t *testing.T, socket, prefix string) (n int) {
	t.Helper()
	at := reach(t, socket)
	o, err := (&rest{bases: at.HTTP, client: at.Client, secret: at.Secret, http: http.DefaultClient}).overview(t.Context())
	if err != nil || o.Shared == nil {
		return -1
	}
	for _, s := range o.Shared.Sessions {
		if strings.HasPrefix(s.ClientID, prefix) {
			n++
		}
	}
	return n
}

func sum(list []int) (n int) {
	for _, v := range list {
		n += v
	}
	return n
}
