package mqtt

import "fmt"

// ReasonCode is the one-byte result of an operation, MQTT 5 table 2-6. Codes
// below 0x80 mean success. It is an error, so that errors.Is(err,
// mqtt.MalformedPacket) finds the code of an *Error.
type ReasonCode byte

// The reason codes, named as the standard names them. Three names share 0x00.
const (
	Success             ReasonCode = 0x00
	NormalDisconnection ReasonCode = 0x00
	GrantedQoS0         ReasonCode = 0x00

	GrantedQoS1            ReasonCode = 0x01
	GrantedQoS2            ReasonCode = 0x02
	DisconnectWithWill     ReasonCode = 0x04
	NoMatchingSubscribers  ReasonCode = 0x10
	NoSubscriptionExisted  ReasonCode = 0x11
	ContinueAuthentication ReasonCode = 0x18
	Reauthenticate         ReasonCode = 0x19

	UnspecifiedError                    ReasonCode = 0x80
	MalformedPacket                     ReasonCode = 0x81
	ProtocolError                       ReasonCode = 0x82
	ImplementationSpecificError         ReasonCode = 0x83
	UnsupportedProtocolVersion          ReasonCode = 0x84
	ClientIdentifierNotValid            ReasonCode = 0x85
	BadUserNameOrPassword               ReasonCode = 0x86
	NotAuthorized                       ReasonCode = 0x87
	ServerUnavailable                   ReasonCode = 0x88
	ServerBusy                          ReasonCode = 0x89
	Banned                              ReasonCode = 0x8A
	ServerShuttingDown                  ReasonCode = 0x8B
	BadAuthenticationMethod             ReasonCode = 0x8C
	KeepAliveTimeout                    ReasonCode = 0x8D
	SessionTakenOver                    ReasonCode = 0x8E
	TopicFilterInvalid                  ReasonCode = 0x8F
	TopicNameInvalid                    ReasonCode = 0x90
	PacketIdentifierInUse               ReasonCode = 0x91
	PacketIdentifierNotFound            ReasonCode = 0x92
	ReceiveMaximumExceeded              ReasonCode = 0x93
	TopicAliasInvalid                   ReasonCode = 0x94
	PacketTooLarge                      ReasonCode = 0x95
	MessageRateTooHigh                  ReasonCode = 0x96
	QuotaExceeded                       ReasonCode = 0x97
	AdministrativeAction                ReasonCode = 0x98
	PayloadFormatInvalid                ReasonCode = 0x99
	RetainNotSupported                  ReasonCode = 0x9A
	QoSNotSupported                     ReasonCode = 0x9B
	UseAnotherServer                    ReasonCode = 0x9C
	ServerMoved                         ReasonCode = 0x9D
	SharedSubscriptionsNotSupported     ReasonCode = 0x9E
	ConnectionRateExceeded              ReasonCode = 0x9F
	MaximumConnectTime                  ReasonCode = 0xA0
	SubscriptionIdentifiersNotSupported ReasonCode = 0xA1
	WildcardSubscriptionsNotSupported   ReasonCode = 0xA2
)

// packetSet is a set of packet types, one bit each.
type packetSet uint16

func packets(types ...PacketType) packetSet {
	var s packetSet
	for _, t := range types {
		s |= 1 << t
	}
	return s
}

func (s packetSet) has(t PacketType) bool { return s&(1<<t) != 0 }

// reason is a row of table 2-6: the name, the packets the code is listed for and
// those of them in which a client may send it.
type reason struct {
	name   string
	listed packetSet
	client packetSet
}

var reasons = func() (table [256]reason) {
	acks := packets(PUBACK, PUBREC)
	releases := packets(PUBREL, PUBCOMP)
	bothAcks := acks | releases // either side sends these
	row := func(c ReasonCode, name string, listed, client packetSet) { table[c] = reason{name, listed, client} }
	server := packetSet(0)
	disconnect := packets(DISCONNECT)

	row(Success, "Success", packets(CONNACK, SUBACK, UNSUBACK, DISCONNECT, AUTH)|bothAcks, bothAcks|disconnect)
	row(GrantedQoS1, "Granted QoS 1", packets(SUBACK), server)
	row(GrantedQoS2, "Granted QoS 2", packets(SUBACK), server)
	row(DisconnectWithWill, "Disconnect with Will Message", disconnect, disconnect)
	row(NoMatchingSubscribers, "No matching subscribers", acks, acks)
	row(NoSubscriptionExisted, "No subscription existed", packets(UNSUBACK), server)
	row(ContinueAuthentication, "Continue authentication", packets(AUTH), packets(AUTH))
	row(Reauthenticate, "Re-authenticate", packets(AUTH), packets(AUTH))
	row(UnspecifiedError, "Unspecified error", packets(CONNACK, SUBACK, UNSUBACK, DISCONNECT)|acks, acks|disconnect)
	row(MalformedPacket, "Malformed Packet", packets(CONNACK, DISCONNECT), disconnect)
	row(ProtocolError, "Protocol Error", packets(CONNACK, DISCONNECT), disconnect)
	row(ImplementationSpecificError, "Implementation specific error", packets(CONNACK, SUBACK, UNSUBACK, DISCONNECT)|acks, acks|disconnect)
	row(UnsupportedProtocolVersion, "Unsupported Protocol Version", packets(CONNACK), server)
	row(ClientIdentifierNotValid, "Client Identifier not valid", packets(CONNACK), server)
	row(BadUserNameOrPassword, "Bad User Name or Password", packets(CONNACK), server)
	row(NotAuthorized, "Not authorized", packets(CONNACK, SUBACK, UNSUBACK, DISCONNECT)|acks, acks)
	row(ServerUnavailable, "Server unavailable", packets(CONNACK), server)
	row(ServerBusy, "Server busy", packets(CONNACK, DISCONNECT), server)
	row(Banned, "Banned", packets(CONNACK), server)
	row(ServerShuttingDown, "Server shutting down", disconnect, server)
	row(BadAuthenticationMethod, "Bad authentication method", packets(CONNACK, DISCONNECT), server)
	row(KeepAliveTimeout, "Keep Alive timeout", disconnect, server)
	row(SessionTakenOver, "Session taken over", disconnect, server)
	row(TopicFilterInvalid, "Topic Filter invalid", packets(SUBACK, UNSUBACK, DISCONNECT), server)
	row(TopicNameInvalid, "Topic Name invalid", packets(CONNACK, DISCONNECT)|acks, acks|disconnect)
	row(PacketIdentifierInUse, "Packet Identifier in use", packets(SUBACK, UNSUBACK)|acks, acks)
	row(PacketIdentifierNotFound, "Packet Identifier not found", releases, releases)
	row(ReceiveMaximumExceeded, "Receive Maximum exceeded", disconnect, disconnect)
	row(TopicAliasInvalid, "Topic Alias invalid", disconnect, disconnect)
	row(PacketTooLarge, "Packet too large", packets(CONNACK, DISCONNECT), disconnect)
	row(MessageRateTooHigh, "Message rate too high", disconnect, disconnect)
	row(QuotaExceeded, "Quota exceeded", packets(CONNACK, SUBACK, DISCONNECT)|acks, acks|disconnect)
	row(AdministrativeAction, "Administrative action", disconnect, disconnect)
	row(PayloadFormatInvalid, "Payload format invalid", packets(CONNACK, DISCONNECT)|acks, acks|disconnect)
	row(RetainNotSupported, "Retain not supported", packets(CONNACK, DISCONNECT), server)
	row(QoSNotSupported, "QoS not supported", packets(CONNACK, DISCONNECT), server)
	row(UseAnotherServer, "Use another server", packets(CONNACK, DISCONNECT), server)
	row(ServerMoved, "Server moved", packets(CONNACK, DISCONNECT), server)
	row(SharedSubscriptionsNotSupported, "Shared Subscriptions not supported", packets(SUBACK, DISCONNECT), server)
	row(ConnectionRateExceeded, "Connection rate exceeded", packets(CONNACK, DISCONNECT), server)
	row(MaximumConnectTime, "Maximum connect time", disconnect, server)
	row(SubscriptionIdentifiersNotSupported, "Subscription Identifiers not supported", packets(SUBACK, DISCONNECT), server)
	row(WildcardSubscriptionsNotSupported, "Wildcard Subscriptions not supported", packets(SUBACK, DISCONNECT), server)
	return table
}()

// String returns the standard's name of the code; 0x00 is "Success".
func (c ReasonCode) String() string {
	if name := reasons[c].name; name != "" {
		return name
	}
	return fmt.Sprintf("reason code 0x%02X", byte(c))
}

// Error returns the name and the number: "Malformed Packet (0x81)".
func (c ReasonCode) Error() string {
	if reasons[c].name == "" {
		return c.String()
	}
	return fmt.Sprintf("%s (0x%02X)", reasons[c].name, byte(c))
}

// ListedFor reports whether the standard lists the code for the packet.
func (c ReasonCode) ListedFor(t PacketType) bool { return reasons[c].listed.has(t) }

// FromClient reports whether a client may send the code in the packet. The
// decoders accept either side's codes, as they do not know who is reading.
func (c ReasonCode) FromClient(t PacketType) bool { return reasons[c].client.has(t) }

// listed returns the code to send in the packet: itself, or where the standard
// does not list it the packet's most general failure, so that no caller can put
// an unlisted code on the wire.
func (c ReasonCode) listed(t PacketType) ReasonCode {
	switch {
	case c.ListedFor(t):
		return c
	case c < 0x80:
		return Success
	case t == PUBREL || t == PUBCOMP:
		return PacketIdentifierNotFound
	default:
		return UnspecifiedError
	}
}

// ConnectReturn maps the code to the return code of an MQTT 3.1 or 3.1.1 CONNACK:
// 0 for success, else 1 to 5. A code without a counterpart becomes 3, server
// unavailable. Whether a refused CONNECT is answered at all is the caller's: the
// standard wants a malformed one closed without a CONNACK [MQTT-3.1.4-1],
// [MQTT-3.2.2-6].
func (c ReasonCode) ConnectReturn() byte {
	switch {
	case c < 0x80:
		return 0
	case c == UnsupportedProtocolVersion:
		return 1
	case c == ClientIdentifierNotValid:
		return 2
	case c == BadUserNameOrPassword, c == BadAuthenticationMethod:
		return 4
	case c == NotAuthorized, c == Banned:
		return 5
	default:
		return 3
	}
}

// connectReturns are the reason codes of the CONNACK return codes 0 to 5.
var connectReturns = [...]ReasonCode{Success, UnsupportedProtocolVersion, ClientIdentifierNotValid,
	ServerUnavailable, BadUserNameOrPassword, NotAuthorized}
