package kubernetes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"maestrohub.io/uns/tests/harness"
)

// fetch gets a path of a replica as the client "device"; unlike the harness's own it
// gives the error back, for what may not answer yet.
func fetch(ctx context.Context, b *harness.Broker, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.HTTP+path, nil)
	if err != nil {
		return err
	}
	request.SetBasicAuth("device", harness.Secret("device"))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s answered %d: %s", path, response.StatusCode, body)
	}
	return json.Unmarshal(body, into)
}
