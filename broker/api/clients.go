package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sort"
	"strings"
	"time"

	"maestrohub.io/uns/broker/access"
)

// Clients is the management of API clients, as package access does it.
type Clients interface {
	Add(ctx context.Context, c access.Client, secret string) (string, error)
	Get(ctx context.Context, id string) (access.Client, error)
	List(ctx context.Context) ([]access.Client, error)
	Rotate(ctx context.Context, id string) (string, error)
	Disable(ctx context.Context, id string) error
	Enable(ctx context.Context, id string) error
	Delete(ctx context.Context, id string) error
}

// Client is an API client as the API shows it: without its secret's hash.
type Client struct {
	ID        string    `json:"id"`
	Workspace string    `json:"workspace"`
	Publish   []string  `json:"publish"`
	Subscribe []string  `json:"subscribe"`
	Scopes    []string  `json:"scopes"`
	Disabled  bool      `json:"disabled"`
	Created   time.Time `json:"created"`
	Changed   time.Time `json:"changed"`
}

// NewClient is the body of an added client. Absent lists mean everything, empty
// ones nothing.
type NewClient struct {
	ID        string    `json:"id"`
	Workspace string    `json:"workspace,omitempty"`
	Publish   *[]string `json:"publish,omitempty"`
	Subscribe *[]string `json:"subscribe,omitempty"`
	Scopes    []string  `json:"scopes,omitempty"`
	Secret    string    `json:"secret,omitempty"`
}

// ClientSecret is a client with the secret that was made for it, shown once.
type ClientSecret struct {
	Client Client `json:"client"`
	Secret string `json:"secret,omitempty"`
}

func shown(c access.Client) Client {
	list := func(s []string) []string { return append([]string{}, s...) } // [] and never null
	return Client{ID: c.ID, Workspace: c.Workspace, Publish: list(c.Publish), Subscribe: list(c.Subscribe), Scopes: list(c.Scopes),
		Disabled: c.Disabled, Created: c.Created, Changed: c.Changed}
}

func (a *API) listClients(w http.ResponseWriter, r *http.Request, c caller) *refusal {
	if q := newQuery(r); q.refused != nil {
		return q.refused
	}
	all, err := a.o.Access.List(r.Context())
	if err != nil {
		return a.clientRefusal(err, "")
	}
	body := struct {
		Clients []Client `json:"clients"`
	}{Clients: []Client{}}
	for _, client := range all {
		if c.has(ScopeAllClients) || client.Workspace == c.workspace() {
			body.Clients = append(body.Clients, shown(client))
		}
	}
	sort.Slice(body.Clients, func(i, j int) bool { return body.Clients[i].ID < body.Clients[j].ID })
	writeJSON(w, http.StatusOK, body)
	return nil
}

func (a *API) addClient(w http.ResponseWriter, r *http.Request, c caller) *refusal {
	var n NewClient
	if refused := readJSON(w, r, maxBodyBytes, &n); refused != nil {
		return refused
	}
	everything := []string{"#"}
	add := access.Client{ID: n.ID, Workspace: n.Workspace, Publish: everything, Subscribe: everything, Scopes: n.Scopes}
	if n.Publish != nil {
		add.Publish = *n.Publish
	}
	if n.Subscribe != nil {
		add.Subscribe = *n.Subscribe
	}
	if add.Workspace == "" {
		add.Workspace = c.workspace()
	}
	if add.Workspace == "" {
		return refuse(http.StatusBadRequest, codeBody, "workspace: missing; the operator belongs to none")
	}
	if refused := c.mayManage(add); refused != nil {
		return refused
	}
	secret, err := a.o.Access.Add(r.Context(), add, n.Secret)
	if err != nil {
		return a.clientRefusal(err, n.ID)
	}
	added, err := a.o.Access.Get(r.Context(), n.ID)
	if err != nil {
		return a.clientRefusal(err, n.ID)
	}
	w.Header().Set("Location", "/api/v1/api-clients/"+url.PathEscape(n.ID))
	body := ClientSecret{Client: shown(added)}
	if n.Secret == "" {
		body.Secret = secret
	}
	a.o.Log.Info("API client added", "client", n.ID, "workspace", add.Workspace, "by", c.name())
	writeJSON(w, http.StatusCreated, body)
	return nil
}

func (a *API) showClient(w http.ResponseWriter, r *http.Request, c caller) *refusal {
	client, refused := a.managed(r, c)
	if refused != nil {
		return refused
	}
	writeJSON(w, http.StatusOK, shown(client))
	return nil
}

func (a *API) deleteClient(w http.ResponseWriter, r *http.Request, c caller) *refusal {
	client, refused := a.managed(r, c)
	if refused != nil {
		return refused
	}
	if err := a.o.Access.Delete(r.Context(), client.ID); err != nil {
		return a.clientRefusal(err, client.ID)
	}
	a.o.Log.Info("API client deleted", "client", client.ID, "workspace", client.Workspace, "by", c.name())
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *API) rotateClient(w http.ResponseWriter, r *http.Request, c caller) *refusal {
	client, refused := a.managed(r, c)
	if refused != nil {
		return refused
	}
	secret, err := a.o.Access.Rotate(r.Context(), client.ID)
	if err != nil {
		return a.clientRefusal(err, client.ID)
	}
	a.o.Log.Info("API client rotated", "client", client.ID, "workspace", client.Workspace, "by", c.name())
	return a.answerClient(w, r, client.ID, &secret)
}

func (a *API) disableClient(w http.ResponseWriter, r *http.Request, c caller) *refusal {
	return a.switchClient(w, r, c, a.o.Access.Disable, "API client disabled")
}

func (a *API) enableClient(w http.ResponseWriter, r *http.Request, c caller) *refusal {
	return a.switchClient(w, r, c, a.o.Access.Enable, "API client enabled")
}

func (a *API) switchClient(w http.ResponseWriter, r *http.Request, c caller, to func(context.Context, string) error, logged string) *refusal {
	client, refused := a.managed(r, c)
	if refused != nil {
		return refused
	}
	if err := to(r.Context(), client.ID); err != nil {
		return a.clientRefusal(err, client.ID)
	}
	a.o.Log.Info(logged, "client", client.ID, "workspace", client.Workspace, "by", c.name())
	return a.answerClient(w, r, client.ID, nil)
}

// answerClient shows the client as it is now.
func (a *API) answerClient(w http.ResponseWriter, r *http.Request, id string, secret *string) *refusal {
	client, err := a.o.Access.Get(r.Context(), id)
	if err != nil {
		return a.clientRefusal(err, id)
	}
	if secret != nil {
		writeJSON(w, http.StatusOK, ClientSecret{Client: shown(client), Secret: *secret})
		return nil
	}
	writeJSON(w, http.StatusOK, shown(client))
	return nil
}

// managed returns the client of the path if the caller may manage it. One of
// another workspace does not exist for a caller bound to its own.
func (a *API) managed(r *http.Request, c caller) (access.Client, *refusal) {
	id := r.PathValue("id")
	if q := newQuery(r); q.refused != nil {
		return access.Client{}, q.refused
	}
	client, err := a.o.Access.Get(r.Context(), id)
	if err != nil {
		return access.Client{}, a.clientRefusal(err, id)
	}
	if client.Workspace != c.workspace() && !c.has(ScopeAllClients) {
		return access.Client{}, a.clientRefusal(access.ErrNotFound, id)
	}
	if r.Method == http.MethodGet {
		return client, nil
	}
	return client, c.mayManage(client)
}

// mayManage keeps a caller from gaining, by a client it makes or whose secret it
// renews, what it does not have.
func (c caller) mayManage(client access.Client) *refusal {
	if client.Workspace != c.workspace() && !c.has(ScopeAllClients) {
		return refuse(http.StatusForbidden, codeWorkspace, "workspace %q: the client %q manages workspace %q only; others need the scope %s",
			client.Workspace, c.id(), c.workspace(), ScopeAllClients)
	}
	var lacking []string
	for _, scope := range client.Scopes {
		if !c.has(scope) {
			lacking = append(lacking, scope)
		}
	}
	if lacking != nil {
		return refuse(http.StatusForbidden, codeNotGranted, "scopes of the client %q: the caller %q lacks %s, and nobody manages more than they have",
			client.ID, c.id(), strings.Join(lacking, ", "))
	}
	return nil
}

// name is who a log line says it was.
func (c caller) name() string {
	if c.operator {
		return "operator"
	}
	return c.id()
}

func (a *API) clientRefusal(err error, id string) *refusal {
	switch {
	case errors.Is(err, access.ErrNotFound):
		return refuse(http.StatusNotFound, codeNotFound, "API client %q: there is none you may manage", id)
	case errors.Is(err, access.ErrExists):
		return refuse(http.StatusConflict, codeExists, "API client %q: there is one already; ids are unique over all workspaces", id)
	case errors.Is(err, access.ErrInvalid):
		return refuse(http.StatusBadRequest, codeBody, "%v", err)
	}
	a.o.Log.Warn("API clients cannot be managed", "client", id, "error", err)
	return refuse(http.StatusServiceUnavailable, codeUnavailable, "API clients cannot be read or changed now").after(retrySoon)
}
