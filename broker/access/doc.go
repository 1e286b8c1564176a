// Package access says who may sign in and what they may do: API clients, their
// secrets and tokens, their topic grants, and the throttle on failed sign-ins.
//
// # The life of a sign-in
//
//  1. SignIn takes the MQTT user name (the API client's id) and the password: the
//     client's secret, or an access token of that client.
//  2. The throttle refuses at once what fails too often (ErrThrottled).
//  3. The client is read from the shared state, the credential is checked, and
//     Grants come back: immutable, matched without allocating.
//  4. Ahead of Grants.Deadline, and when OnChange names the client, the caller asks
//     for its Standing and renews them by it. ErrRefused then means that the client
//     was deleted, disabled or rotated, or that the token expired: the session is
//     closed. ErrUnavailable says nothing about the client: try again until the
//     deadline, then close.
//
// An error never says why a credential was refused, and an unknown client costs
// the same work as a known one.
//
// # Secrets
//
// A secret the broker makes has 256 bits from the system's random source. It is
// stored as a salted SHA-256, which takes a microsecond, so that 5,000 devices
// that come back at once are not kept waiting by it. A slow hash would add
// nothing: it defends a secret that can be guessed, by making each guess costly,
// and 2^256 guesses cannot be made at any price. For the same reason a fast hash is
// wrong for whatever a person made up. A chosen secret (clients.yaml, or given to
// Add) is therefore stored as argon2id (19 MiB, 2 passes), unless it has the form
// of at least 32 random bytes in hexadecimal or base64: then it counts as generated.
// That is judged by its alphabet, the variety of its characters and the absence of
// runs and repetitions; a passphrase does not pass, and a random secret that fails
// by bad luck only costs more time.
//
// At most two argon2id computations run at once. After one succeeds the secret is
// recognised again by a keyed digest in this process's memory (the key is made at
// the start and never leaves it), so that a reconnect storm costs one computation
// per client and not one per connection. Nothing of that is stored.
//
// The stored form names its method: $sha256$<salt>$<hash> or
// $argon2id$v=19$m=…,t=…,p=…$<salt>$<hash>, base64 without padding. Both are
// accepted as secretHash.
//
// # Tokens
//
// Token issues an access token for a client's secret: a JWT signed (HS256) with a
// key in the shared state, so every replica accepts it and whoever may read the
// bucket api-clients, a backup of it included, can make one. It carries the
// client's generation, which Rotate and Disable change: older tokens are void at
// once. Tokens of external issuers are accepted for the clients known here; their
// algorithms are pinned, their keys are fetched from the issuer, and while that
// cannot be done for a token it is ErrUnavailable. A token's client must be the user
// name; a bearer token of HTTP comes without one, as the empty user name.
//
// # The throttle
//
// Failures count per user name and, where the caller knows the device's own
// address, per address. Threshold failures within Window block for Backoff; each
// further block, unless a quiet time comes between, is twice as long, to BackoffMax.
// While blocked a correct credential is refused too: otherwise the throttle
// would only hide its answers from the one who guesses right.
//
// A throttle on a name is itself a weapon: whoever knows a device's name could lock
// it out. So, where the address is known, a name is counted per address: failures
// from elsewhere do not touch the device. Only ten times the threshold, from
// many addresses together, blocks the name as a whole, and an address does not lock
// out the devices behind it that have signed in from there before. Attempts while
// blocked do not prolong a block. Where addresses are unknown (a load balancer in
// between, trustClientAddresses off) none of this can be told apart: then a flood
// on a name locks out that name's new connections, and only those; sessions that
// are open stay.
//
// # What is stored
//
// In the bucket api-clients: client/<id>, seed/<id> (what clients.yaml said of it
// when it was last applied) and token-key. Each value begins with a format
// byte, JSON follows.
package access
