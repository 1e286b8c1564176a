package secrets

import (
	"bytes"
	"context"
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
	"path/filepath"
	"strings"
	"time"
)

// Kubernetes is the Store of a cluster.
type Kubernetes struct {
	// URL of the API, without a slash at the end.
	URL string
	// Token is read at each request, since the kubelet renews it; nil: none (a proxy signs in).
	Token  func() (string, error)
	Client *http.Client
	// Pause before a request that the API did not answer is sent again. 0: 1 s.
	Pause time.Duration
}

// serviceAccount is where the kubelet puts a pod's credentials.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// InCluster is the API of the cluster this process runs in, as its ServiceAccount.
func InCluster() (*Kubernetes, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("not in a pod of a Kubernetes cluster (KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set): name an API with --server, for example that of `kubectl proxy`, http://127.0.0.1:8001")
	}
	return serviceAccountIn(serviceAccount, "https://"+net.JoinHostPort(host, port))
}

func serviceAccountIn(dir, url string) (*Kubernetes, error) {
	bundle, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("read the ServiceAccount's files (does the pod mount its token?): %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("%s holds no PEM certificate", filepath.Join(dir, "ca.crt"))
	}
	token := func() (string, error) {
		t, err := os.ReadFile(filepath.Join(dir, "token"))
		return strings.TrimSpace(string(t)), err
	}
	return &Kubernetes{URL: url, Token: token, Client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}}}}, nil
}

// object is a Secret as the API has it.
type object struct {
	APIVersion string            `json:"apiVersion,omitempty"`
	Kind       string            `json:"kind,omitempty"`
	Metadata   metadata          `json:"metadata"`
	Type       string            `json:"type,omitempty"`
	Data       map[string][]byte `json:"data,omitempty"`
}

type metadata struct {
	Name            string            `json:"name,omitempty"`
	Namespace       string            `json:"namespace,omitempty"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
}

// Read is Store's.
func (k *Kubernetes) Read(ctx context.Context, r Ref) (*Secret, error) {
	var o object
	if err := k.call(ctx, http.MethodGet, secretPath(r), r, "", nil, &o); err != nil {
		return nil, err
	}
	return &Secret{Ref: r, Type: o.Type, Labels: o.Metadata.Labels, Annotations: o.Metadata.Annotations, Data: o.Data, Revision: o.Metadata.ResourceVersion}, nil
}

// Create is Store's.
func (k *Kubernetes) Create(ctx context.Context, s *Secret) error {
	return k.call(ctx, http.MethodPost, secretPath(Ref{Namespace: s.Namespace}), s.Ref, "application/json", object{
		APIVersion: "v1", Kind: "Secret", Type: s.Type, Data: s.Data,
		Metadata: metadata{Name: s.Name, Namespace: s.Namespace, Labels: s.Labels, Annotations: s.Annotations},
	}, nil)
}

// Change is Store's. It is a merge patch, so that what this package does not know stays; the revision in it makes it
// conditional.
func (k *Kubernetes) Change(ctx context.Context, c Change) error {
	return k.call(ctx, http.MethodPatch, secretPath(c.Ref), c.Ref, "application/merge-patch+json", map[string]any{
		"metadata": metadata{ResourceVersion: c.Revision, Annotations: c.Annotations}, "data": c.Data,
	}, nil)
}

// Namespace creates a namespace with the labels where none is; created says whether it did. One that is there stays as it is.
func (k *Kubernetes) Namespace(ctx context.Context, name string, labels map[string]string) (created bool, err error) {
	path := "/api/v1/namespaces"
	switch err := k.call(ctx, http.MethodGet, path+"/"+url.PathEscape(name), Ref{Namespace: name}, "", nil, nil); {
	case err == nil:
		return false, nil
	case !errors.Is(err, ErrMissing):
		return false, err
	}
	err = k.call(ctx, http.MethodPost, path, Ref{Namespace: name}, "application/json", object{
		APIVersion: "v1", Kind: "Namespace", Metadata: metadata{Name: name, Labels: labels},
	}, nil)
	if errors.Is(err, ErrConflict) { // another Job was first
		return false, nil
	}
	return err == nil, err
}

func secretPath(r Ref) string {
	path := "/api/v1/namespaces/" + url.PathEscape(r.Namespace) + "/secrets"
	if r.Name != "" {
		path += "/" + url.PathEscape(r.Name)
	}
	return path
}

// call sends a request until the API answers it or ctx ends. A write that is sent again after its answer was lost
// meets itself as a conflict, and Ensure looks again.
func (k *Kubernetes) call(ctx context.Context, method, path string, r Ref, contentType string, body, into any) error {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
	}
	pause := k.Pause
	if pause == 0 {
		pause = time.Second
	}
	for {
		again, err := k.once(ctx, method, path, r, contentType, data, into)
		if !again {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (gave up: %w)", err, context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}

// once sends a request. again says that the API was not reached or asks for patience.
func (k *Kubernetes) once(ctx context.Context, method, path string, r Ref, contentType string, data []byte, into any) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, k.URL+path, bytes.NewReader(data))
	if err != nil {
		return false, fmt.Errorf("address of the Kubernetes API: %w", err)
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	request.Header.Set("Accept", "application/json")
	if k.Token != nil {
		token, err := k.Token()
		if err != nil {
			return false, fmt.Errorf("read the ServiceAccount's token: %w", err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := k.Client.Do(request)
	if err != nil {
		return true, fmt.Errorf("reach the Kubernetes API: %w", err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 8<<20))
	if err != nil {
		return true, fmt.Errorf("read the Kubernetes API's answer: %w", err)
	}
	if response.StatusCode < 300 {
		if into != nil {
			if err := json.Unmarshal(answer, into); err != nil {
				return false, fmt.Errorf("read the Kubernetes API's answer: %w", err)
			}
		}
		return false, nil
	}
	return refused(method, r, response, answer)
}

// refused reads an answer that is not a success.
func refused(method string, r Ref, response *http.Response, answer []byte) (again bool, err error) {
	var status struct {
		Message string `json:"message"`
		Reason  string `json:"reason"`
	}
	_ = json.Unmarshal(answer, &status) // a proxy in between answers with no Status
	said := status.Message
	if said == "" {
		said = response.Status
	}
	switch code := response.StatusCode; {
	case code == http.StatusNotFound && method == http.MethodGet:
		return false, ErrMissing
	case code == http.StatusNotFound && method == http.MethodPatch:
		return false, ErrConflict // deleted since it was read
	case code == http.StatusNotFound:
		return false, fmt.Errorf("namespace %s does not exist: create it first (%s)", r.Namespace, said)
	case code == http.StatusConflict && status.Reason != "NamespaceTerminating":
		return false, fmt.Errorf("%w (%s)", ErrConflict, said)
	case code == http.StatusForbidden:
		return false, fmt.Errorf("the Kubernetes API forbids it: %s", said)
	case code == http.StatusTooManyRequests || code >= 500:
		return true, fmt.Errorf("the Kubernetes API is not ready: %s", said)
	}
	return false, fmt.Errorf("the Kubernetes API refuses it: %s", said)
}
