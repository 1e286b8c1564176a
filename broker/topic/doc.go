// Package topic knows what MQTT topic names and filters are: which are well
// formed, which match which, how the broker's own names are built, and which
// subscriptions a name reaches.
//
// Everything compares bytes. Nothing is normalised, letter case counts, and an
// empty level is a level: "a//b" has three, "/" has two [MQTT-4.7.3-4].
//
// # Names and filters
//
// ValidateName and ValidateFilter decide once, at the door, whether a string is
// well formed. Match, Covers, Intersects and Index take well-formed input and do
// not check again; given anything else they answer something, never panic.
//
// Match relates a filter to a name. Covers and Intersects relate two filters to
// each other by the names they match: Covers says that a permission on outer
// answers for every delivery of a subscription to inner; Intersects says that
// checking each delivery is worth while at all. Both are exact.
//
// A filter that begins with a wildcard does not match a name that begins with
// "$". That holds for whole names only: for filters and topics below a workspace
// there is MatchBelow, without it a topic such as "$x" would slip past "#". To
// relate two such filters, put the same level before both.
//
// # The inbox grammar
//
// Grammar holds the version level that every name of the broker begins with
// ("mHv1.0") and the four kinds of names below it:
//
//	<version>/<workspace>/_ingress/<client>/<topic>   a device's inbox, published to
//	<version>/<workspace>/<topic>                     the live copy of a stored value
//	<version>/<workspace>/_alerts/<topic>             a threshold the value crossed
//	<version>/<workspace>/_errors/<client>            why a value was refused
//
// ParseInbox takes the first apart without copying. A topic must not begin with
// one of the reserved levels (_ingress, _alerts, _errors): else a device could
// write alerts, errors or another device's inbox through its own.
//
// # The subscription index
//
//  1. Set adds or replaces what a key (a session, a replica) wants under a filter.
//  2. Match yields every (key, value) whose filter matches a name, each filter
//     once: a key with overlapping filters is yielded once for each.
//  3. Delete takes one filter of one key out again and frees what it held.
//
// Generation moves with every change, so that a caller who kept a result of
// Match can tell for the price of one atomic read whether it still holds.
//
// The index is a trie with a level per edge, behind a read-write lock: Match
// does not allocate and visits only prefixes of the name (about 100 ns for a name of five levels
// among 10,000 filters). A filter costs a node of 96 bytes for each level it
// shares with no other; a node keeps its children in a list, and a map only when
// there are more than eight.
package topic
