package mqtt

// property is an MQTT 5 property identifier, table 2-4.
type property byte

const (
	payloadFormat          property = 0x01
	messageExpiry          property = 0x02
	contentType            property = 0x03
	responseTopic          property = 0x08
	correlationData        property = 0x09
	subscriptionIdentifier property = 0x0B
	sessionExpiry          property = 0x11
	assignedClientID       property = 0x12
	serverKeepAlive        property = 0x13
	authMethod             property = 0x15
	authData               property = 0x16
	requestProblem         property = 0x17
	willDelay              property = 0x18
	requestResponse        property = 0x19
	responseInformation    property = 0x1A
	serverReference        property = 0x1C
	reasonString           property = 0x1F
	receiveMaximum         property = 0x21
	topicAliasMaximum      property = 0x22
	topicAlias             property = 0x23
	maximumQoS             property = 0x24
	retainAvailable        property = 0x25
	userProperty           property = 0x26
	maximumPacketSize      property = 0x27
	wildcardAvailable      property = 0x28
	identifiersAvailable   property = 0x29
	sharedAvailable        property = 0x2A
)

// will stands for the Will Properties of CONNECT in a set of packets: packet
// type 0 is nobody's.
const will PacketType = 0

// propertyTable says what each property is called and where it may stand.
var propertyTable = [...]struct {
	name string
	on   packetSet
}{
	payloadFormat:          {"Payload Format Indicator", packets(PUBLISH, will)},
	messageExpiry:          {"Message Expiry Interval", packets(PUBLISH, will)},
	contentType:            {"Content Type", packets(PUBLISH, will)},
	responseTopic:          {"Response Topic", packets(PUBLISH, will)},
	correlationData:        {"Correlation Data", packets(PUBLISH, will)},
	subscriptionIdentifier: {"Subscription Identifier", packets(PUBLISH, SUBSCRIBE)},
	sessionExpiry:          {"Session Expiry Interval", packets(CONNECT, CONNACK, DISCONNECT)},
	assignedClientID:       {"Assigned Client Identifier", packets(CONNACK)},
	serverKeepAlive:        {"Server Keep Alive", packets(CONNACK)},
	authMethod:             {"Authentication Method", packets(CONNECT, CONNACK, AUTH)},
	authData:               {"Authentication Data", packets(CONNECT, CONNACK, AUTH)},
	requestProblem:         {"Request Problem Information", packets(CONNECT)},
	willDelay:              {"Will Delay Interval", packets(will)},
	requestResponse:        {"Request Response Information", packets(CONNECT)},
	responseInformation:    {"Response Information", packets(CONNACK)},
	serverReference:        {"Server Reference", packets(CONNACK, DISCONNECT)},
	reasonString: {"Reason String", packets(CONNACK, PUBACK, PUBREC, PUBREL, PUBCOMP,
		SUBACK, UNSUBACK, DISCONNECT, AUTH)},
	receiveMaximum:    {"Receive Maximum", packets(CONNECT, CONNACK)},
	topicAliasMaximum: {"Topic Alias Maximum", packets(CONNECT, CONNACK)},
	topicAlias:        {"Topic Alias", packets(PUBLISH)},
	maximumQoS:        {"Maximum QoS", packets(CONNACK)},
	retainAvailable:   {"Retain Available", packets(CONNACK)},
	userProperty: {"User Property", packets(CONNECT, CONNACK, PUBLISH, will, PUBACK, PUBREC, PUBREL, PUBCOMP,
		SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, DISCONNECT, AUTH)},
	maximumPacketSize:    {"Maximum Packet Size", packets(CONNECT, CONNACK)},
	wildcardAvailable:    {"Wildcard Subscription Available", packets(CONNACK)},
	identifiersAvailable: {"Subscription Identifiers Available", packets(CONNACK)},
	sharedAvailable:      {"Shared Subscription Available", packets(CONNACK)},
}

// String returns the standard's name of the property.
func (p property) String() string { return propertyTable[p].name }
