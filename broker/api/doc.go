// Package api is the HTTP side of a replica: health and metrics for machines,
// access tokens, history, writes, retained values, the reject feed, API clients
// and status for people and programs. openapi.yaml describes every route; a test
// holds the document, the route table and real answers against each other.
//
// page/ is the MQTT Broker page, served at /: hand-written files, embedded as they are,
// that show GET /api/v1/system/uns/broker to whoever signs in there.
//
// Who may do what:
//
//   - /health, /metrics and the document need no credential and say nothing
//     about a workspace.
//   - Everything else takes an API client's credential: HTTP Basic with its id
//     and secret, or a bearer token. Each route names one scope in the table
//     (routes.go). A credential works in its own workspace only.
//   - What concerns one client is shown to that client; what concerns the others
//     of its workspace (reject feed, connections) also needs uns_settings:update.
//   - API clients are managed within the own workspace with api_clients:manage and
//     in all with api_clients:manage:all. Nobody hands out, or takes over by
//     rotating, more than they hold: every scope of the managed client must be the
//     caller's too.
//   - AdminHandler serves the API clients and the status to the operator of the
//     machine without a credential. The replica binds it to a Unix socket that only
//     the owner of the data directory can open: that is where the first client of a
//     fresh node comes from.
//
// Failed sign-ins are throttled by package access, by the socket's peer address
// only where the configuration says that it is the device's own. There is no CORS.
//
// The life of a request:
//
//  1. limit: at most Options.MaxRequests at once, each body bounded; once signed in,
//     a client and a workspace have a share of it (shares.go).
//  2. route: an unknown path or method is refused as a problem.
//  3. sign in and check the scope.
//  4. the handler reads its parameters, all of them, before it acts.
//  5. a refusal leaves as application/problem+json (problem.go), at the token
//     endpoint as RFC 6749 says (token.go).
package api
