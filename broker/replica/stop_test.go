package replica

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/mqtt"
)

func TestAStopUnderLoadLosesNothingThatWasAcknowledged(t *testing.T) {
	dir := t.TempDir()
	r := start(t, ephemeral(dir))
	secret, err := r.Access().Add(t.Context(), access.Client{ID: "press", Workspace: "plant", Scopes: []string{"uns:read", "uns:write"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	d := r.device(t, "press", secret)
	const most = 500 // within receiveMaximum, so that the device need not wait
	go func() {
		for id := uint16(1); id <= most; id++ {
			p := mqtt.Publish{QoS: 1, PacketID: id, Topic: []byte("mHv1.0/plant/_ingress/press/n"), Payload: fmt.Appendf(nil, "%d", id)}
			if _, err := d.Write(p.Append(nil, mqtt.V5)); err != nil {
				return // the broker has stopped, as it was told
			}
		}
	}()
	write := make(chan int, 1)
	go func() { // and a REST write that is under way
		request, err := http.NewRequest("POST", "http://"+r.Address("http")+"/api/v1/uns/plant/values", strings.NewReader(`{"values": [{"topic": "rest", "value": 1}]}`))
		if err != nil {
			panic(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.SetBasicAuth("press", secret)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			write <- 0 // not accepted any more
			return
		}
		_ = response.Body.Close()
		write <- response.StatusCode
	}()
	acknowledged := map[uint16]bool{}
	stopped := make(chan error, 1)
	for told := false; ; {
		head := make([]byte, 2)
		if _, err := io.ReadFull(d, head); err != nil {
			break
		}
		body := make([]byte, head[1])
		if _, err := io.ReadFull(d, body); err != nil {
			break
		}
		if mqtt.PacketType(head[0]>>4) != mqtt.PUBACK {
			if head[0]>>4 != byte(mqtt.DISCONNECT) || body[0] != byte(mqtt.ServerShuttingDown) {
				t.Errorf("the device is told % x % x, want DISCONNECT 0x8B", head, body)
			}
			continue
		}
		if len(body) == 2 || body[2] < 0x80 {
			acknowledged[uint16(body[0])<<8|uint16(body[1])] = true
		}
		if !told { // in the middle of it
			told = true
			go func() { stopped <- r.stop() }()
		}
	}
	if err := <-stopped; err != nil {
		t.Fatalf("stop: %v", err)
	}
	again := start(t, ephemeral(dir))
	status, body := again.get(t, "/api/v1/uns/plant/history?topic=n&limit=1000", "press", secret)
	var page struct{ Values []struct{ Value uint16 } }
	if err := json.Unmarshal([]byte(body), &page); err != nil || status != 200 {
		t.Fatalf("history: %d %v", status, err)
	}
	have := map[uint16]bool{}
	for _, v := range page.Values {
		have[v.Value] = true
	}
	for id := range acknowledged {
		if !have[id] {
			t.Errorf("value %d was acknowledged and is not in history", id)
		}
	}
	if len(acknowledged) == 0 {
		t.Error("nothing was acknowledged before the stop")
	}
	if code := <-write; code == 200 {
		if _, body := again.get(t, "/api/v1/uns/plant/history?topic=rest", "press", secret); !strings.Contains(body, `"value":1`) {
			t.Errorf("the REST write was answered 200 and is not in history: %s", body)
		}
	}
	t.Logf("%d acknowledged, %d in history", len(acknowledged), len(have))
}
