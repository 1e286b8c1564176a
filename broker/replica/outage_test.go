package replica

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/access"
)

func TestAHistorianThatCannotBeOpenedMakesTheReplicaUnreadyUntilTheCauseIsGone(t *testing.T) {
	dir := t.TempDir()
	blocked := write(t, filepath.Join(dir, "history"), "a file where the store's directory belongs")
	c := ephemeral(dir)
	c.Historian.RetryBudget, c.Historian.HungWriteTimeout = time.Second, time.Second
	r := start(t, c)
	secret, err := r.Access().Add(t.Context(), access.Client{ID: "press", Workspace: "plant", Scopes: []string{"uns:read", "uns:write", "uns_settings:update"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	if status, body := r.get(t, "/health/ready", "", ""); status != 503 || !strings.Contains(body, `"broker-cluster-store: historian: `) {
		t.Errorf("ready: %d %s, want 503 and the historian named", status, body)
	}
	if _, body := r.get(t, "/api/v1/system/uns/settings/status", "press", secret); !strings.Contains(body, `"ready":false`) || !strings.Contains(body, `"available":false`) {
		t.Errorf("status: %s", body)
	}
	post := func() int {
		t.Helper()
		request, err := http.NewRequest("POST", "http://"+r.Address("http")+"/api/v1/uns/plant/values", strings.NewReader(`{"values": [{"topic": "a", "value": 1}]}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.SetBasicAuth("press", secret)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	if code := post(); code != 503 {
		t.Errorf("a write meanwhile: %d, want 503", code)
	}
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		status, body := r.get(t, "/health/ready", "", "")
		if status == 200 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("30 s after the cause is gone: %d %s", status, body)
		}
		<-time.After(10 * time.Millisecond)
	}
	if code := post(); code != 200 {
		t.Errorf("a write afterwards: %d, want 200", code)
	}
}
