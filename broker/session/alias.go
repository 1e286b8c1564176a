package session

// AliasIn holds the topic aliases the client has set on this connection.
type AliasIn struct {
	// Maximum is the Topic Alias Maximum announced to the client; 0: none.
	Maximum uint16
	topics  []string
}

// Set maps alias to topic; it replaces an earlier mapping (3.3.2.3.4).
// The caller has checked alias against Maximum [MQTT-3.3.2-12].
func (a *AliasIn) Set(alias uint16, topic string) {
	if int(alias) > len(a.topics) {
		grown := make([]string, alias)
		copy(grown, a.topics)
		a.topics = grown
	}
	a.topics[alias-1] = topic
}

// Topic returns the topic alias stands for; "" if it was never set.
func (a *AliasIn) Topic(alias uint16) string {
	if alias == 0 || int(alias) > len(a.topics) {
		return ""
	}
	return a.topics[alias-1]
}

// AliasOut gives aliases to the topics sent on this connection, first come
// first served: an alias once given is never moved, so that no message in flight
// can be read under the wrong topic.
type AliasOut struct {
	// Maximum is the client's Topic Alias Maximum [MQTT-3.3.2-11]; 0: none
	// [MQTT-3.1.2-27].
	Maximum uint16
	aliases map[string]uint16
}

// Alias returns the alias for topic; known says that the client has it already,
// so that the topic name may be left out. 0 means: send the topic name alone.
func (a *AliasOut) Alias(topic string) (alias uint16, known bool) {
	if a.Maximum == 0 {
		return 0, false
	}
	if alias, known = a.aliases[topic]; known {
		return alias, true
	}
	if len(a.aliases) >= int(a.Maximum) {
		return 0, false
	}
	if a.aliases == nil {
		a.aliases = make(map[string]uint16)
	}
	alias = uint16(len(a.aliases) + 1)
	a.aliases[topic] = alias
	return alias, false
}

// Forget takes back the alias given last, of a message that was not sent.
func (a *AliasOut) Forget(topic string) { delete(a.aliases, topic) }
