package mqtt

import "maestrohub.io/uns/broker/value"

// vector is a packet and its bytes in one version. Both directions are tested,
// except where one packet has several forms: decodeOnly is a form Append does not
// choose, encodeOnly a packet that comes back as another.
type vector struct {
	name       string
	v          Version
	packet     packet
	wire       string
	decodeOnly bool
	encodeOnly bool
}

var vectors = func() (all []vector) {
	for _, table := range [][]vector{connectVectors, connackVectors, publishVectors, ackVectors, subscribeVectors, otherVectors} {
		all = append(all, table...)
	}
	return all
}()

func users(pairs ...string) (user []value.UserProperty) {
	for i := 0; i < len(pairs); i += 2 {
		user = append(user, value.UserProperty{Key: pairs[i], Value: pairs[i+1]})
	}
	return user
}

var connectVectors = []vector{
	{name: "CONNECT 3.1 smallest", v: V31, wire: `10 ("MQIsdp" 03 02 003C "c")`,
		packet: connect{&Connect{Version: V31, CleanStart: true, KeepAlive: 60, ClientID: "c", ReceiveMaximum: 65535, RequestProblemInformation: true}}},
	{name: "CONNECT 3.1 client identifier of 23 characters of two bytes", v: V31, wire: `10 ("MQIsdp" 03 02 0000 "äääääääääääääääääääääää")`,
		packet: connect{&Connect{Version: V31, CleanStart: true, ClientID: "äääääääääääääääääääääää", ReceiveMaximum: 65535, RequestProblemInformation: true}}},
	{name: "CONNECT 3.1 will and sign-in", v: V31, wire: `10 ("MQIsdp" 03 EE 000A "c" "w" "gone" "u" "p")`,
		packet: connect{&Connect{Version: V31, CleanStart: true, KeepAlive: 10, ClientID: "c", Username: "u", HasUsername: true, Password: []byte("p"), HasPassword: true,
			Will: &Will{QoS: 1, Retain: true, Topic: "w", Payload: []byte("gone")}, ReceiveMaximum: 65535, RequestProblemInformation: true}}},
	{name: "CONNECT 3.1 flagged user name and password are missing", v: V31, wire: `10 ("MQIsdp" 03 C2 000A "c")`, decodeOnly: true,
		packet: connect{&Connect{Version: V31, CleanStart: true, KeepAlive: 10, ClientID: "c", ReceiveMaximum: 65535, RequestProblemInformation: true}}},
	{name: "CONNECT 3.1 flagged password is missing", v: V31, wire: `10 ("MQIsdp" 03 C2 000A "c" "u")`, decodeOnly: true,
		packet: connect{&Connect{Version: V31, CleanStart: true, KeepAlive: 10, ClientID: "c", Username: "u", HasUsername: true, ReceiveMaximum: 65535, RequestProblemInformation: true}}},
	{name: "CONNECT 3.1 disregards reserved and will flags without a will", v: V31, wire: `10 ("MQIsdp" 03 3B 000A "c")`, decodeOnly: true,
		packet: connect{&Connect{Version: V31, CleanStart: true, KeepAlive: 10, ClientID: "c", ReceiveMaximum: 65535, RequestProblemInformation: true}}},
	{name: "CONNECT 3.1.1 smallest", v: V311, wire: `10 ("MQTT" 04 02 003C "")`,
		packet: connect{&Connect{Version: V311, CleanStart: true, KeepAlive: 60, ReceiveMaximum: 65535, RequestProblemInformation: true}}},
	{name: "CONNECT 3.1.1 will and sign-in, all empty but the topic", v: V311, wire: `10 ("MQTT" 04 D4 0000 "c" "w" 0000 "" 0000)`,
		packet: connect{&Connect{Version: V311, ClientID: "c", HasUsername: true, Password: []byte{}, HasPassword: true,
			Will: &Will{QoS: 2, Topic: "w", Payload: []byte{}}, ReceiveMaximum: 65535, RequestProblemInformation: true}}},
	{name: "CONNECT 3.1.1 padded remaining length", v: V311, wire: `10 8D00 "MQTT" 04 02 003C "c"`, decodeOnly: true,
		packet: connect{&Connect{Version: V311, CleanStart: true, KeepAlive: 60, ClientID: "c", ReceiveMaximum: 65535, RequestProblemInformation: true}}},
	{name: "CONNECT 5 smallest", v: V5, wire: `10 ("MQTT" 05 00 0000 () "")`,
		packet: connect{&Connect{Version: V5, ReceiveMaximum: 65535, RequestProblemInformation: true}}},
	{name: "CONNECT 5 password without a user name", v: V5, wire: `10 ("MQTT" 05 42 0000 () "c" "p")`,
		packet: connect{&Connect{Version: V5, CleanStart: true, ClientID: "c", Password: []byte("p"), HasPassword: true, ReceiveMaximum: 65535, RequestProblemInformation: true}}},
	{name: "CONNECT 5 defaults spelled out", v: V5, wire: `10 ("MQTT" 05 00 0000 (11 00000000 21 FFFF 22 0000 19 00 17 01) "")`, decodeOnly: true,
		packet: connect{&Connect{Version: V5, ReceiveMaximum: 65535, RequestProblemInformation: true}}},
	{name: "CONNECT 5 every property", v: V5, wire: `10 ("MQTT" 05 F6 0102
			(11 FFFFFFFF 21 0014 27 00010000 22 000A 19 01 17 00 15 "SCRAM" 16 "data" 26 "k" "1" 26 "k" "2")
			"dev" (18 0000001E 02 00000E10 01 01 03 "text/plain" 08 "reply" 09 "id" 26 "a" "" 26 "a" "b")
			"will/t" "bye" "user" "pass")`,
		packet: connect{&Connect{Version: V5, CleanStart: true, KeepAlive: 258, ClientID: "dev",
			SessionExpiry: 0xFFFFFFFF, ReceiveMaximum: 20, MaximumPacketSize: 65536, TopicAliasMaximum: 10, RequestResponseInformation: true,
			AuthMethod: "SCRAM", HasAuthMethod: true, AuthData: []byte("data"), User: users("k", "1", "k", "2"),
			Will: &Will{QoS: 2, Retain: true, Topic: "will/t", Payload: []byte("bye"), Delay: 30, MessageExpiry: 3600, HasExpiry: true,
				Properties: value.Properties{PayloadFormat: 1, HasPayloadFormat: true, HasContentType: true, ContentType: "text/plain", ResponseTopic: "reply",
					CorrelationData: []byte("id"), User: users("a", "", "a", "b")}},
			Username: "user", HasUsername: true, Password: []byte("pass"), HasPassword: true}}},
}

var connackVectors = []vector{
	{name: "CONNACK 3.1 accepted has no session present", v: V31, wire: `20 (00 00)`, encodeOnly: true, packet: &Connack{SessionPresent: true}},
	{name: "CONNACK 3.1 reserved byte is disregarded", v: V31, wire: `20 (01 00)`, decodeOnly: true, packet: &Connack{ReceiveMaximum: 65535}},
	{name: "CONNACK 3.1 identifier rejected", v: V31, wire: `20 (00 02)`, packet: &Connack{Code: ClientIdentifierNotValid, ReceiveMaximum: 65535}},
	{name: "CONNACK 3.1.1 session present", v: V311, wire: `20 (01 00)`, packet: &Connack{SessionPresent: true, ReceiveMaximum: 65535}},
	{name: "CONNACK 3.1.1 bad protocol version", v: V311, wire: `20 (00 01)`, packet: &Connack{Code: UnsupportedProtocolVersion, ReceiveMaximum: 65535}},
	{name: "CONNACK 3.1.1 server unavailable", v: V311, wire: `20 (00 03)`, packet: &Connack{Code: ServerUnavailable, ReceiveMaximum: 65535}},
	{name: "CONNACK 3.1.1 bad user name or password", v: V311, wire: `20 (00 04)`, packet: &Connack{Code: BadUserNameOrPassword, ReceiveMaximum: 65535}},
	{name: "CONNACK 3.1.1 not authorized", v: V311, wire: `20 (00 05)`, packet: &Connack{Code: NotAuthorized, ReceiveMaximum: 65535}},
	{name: "CONNACK 3.1.1 leaves out what it does not have", v: V311, wire: `20 (00 05)`, encodeOnly: true,
		packet: &Connack{SessionPresent: true, Code: Banned, ReasonString: "no", User: users("a", "b"), AssignedClientID: "x"}},
	{name: "CONNACK 5 smallest", v: V5, wire: `20 (00 00 ())`, packet: &Connack{ReceiveMaximum: 65535}},
	{name: "CONNACK 5 refused has no session present", v: V5, wire: `20 (00 87 ())`, encodeOnly: true, packet: &Connack{SessionPresent: true, Code: NotAuthorized}},
	{name: "CONNACK 5 unlisted code", v: V5, wire: `20 (00 80 ())`, encodeOnly: true, packet: &Connack{Code: KeepAliveTimeout}},
	{name: "CONNACK 5 every property", v: V5, wire: `20 (01 00 (11 0000000A 21 0014 24 01 27 00010000 22 000A 13 003C 25 00 28 01 29 00 2A 01
			12 "auto-1" 1A "resp" 1C "other" 15 "SCRAM" 16 "data" 1F "why" 26 "k" "1" 26 "" ""))`,
		packet: &Connack{SessionPresent: true, SessionExpiry: new(uint32(10)), ReceiveMaximum: 20, MaximumQoS: new(byte(1)), RetainAvailable: new(false),
			MaximumPacketSize: 65536, AssignedClientID: "auto-1", TopicAliasMaximum: 10, ReasonString: "why", User: users("k", "1", "", ""),
			WildcardAvailable: new(true), SubscriptionIDsAvailable: new(false), SharedAvailable: new(true), ServerKeepAlive: new(uint16(60)),
			ResponseInformation: "resp", ServerReference: "other", AuthMethod: "SCRAM", AuthData: []byte("data")}},
}

var publishVectors = []vector{
	{name: "PUBLISH 3.1 QoS 0", v: V31, wire: `30 ("a/b" 'hi')`, packet: &Publish{Topic: []byte("a/b"), Payload: []byte("hi")}},
	{name: "PUBLISH 3.1 disregards DUP at QoS 0", v: V31, wire: `38 ("a/b" 'hi')`, decodeOnly: true, packet: &Publish{Topic: []byte("a/b"), Payload: []byte("hi")}},
	{name: "PUBLISH 3.1.1 QoS 1", v: V311, wire: `32 ("a/b" 000A 'hi')`, packet: &Publish{QoS: 1, Topic: []byte("a/b"), PacketID: 10, Payload: []byte("hi")}},
	{name: "PUBLISH 3.1.1 QoS 2 repeated, retained, no payload", v: V311, wire: `3D ("a" FFFF)`,
		packet: &Publish{Dup: true, QoS: 2, Retain: true, Topic: []byte("a"), PacketID: 65535, Payload: []byte{}}},
	{name: "PUBLISH 3.1.1 leaves out what it does not have", v: V311, wire: `30 ("a" 'x')`, encodeOnly: true,
		packet: &Publish{Topic: []byte("a"), Payload: []byte("x"), PacketID: 9, TopicAlias: 3, HasAlias: true, MessageExpiry: 4, HasExpiry: true,
			SubscriptionIDs: []uint32{1}, Properties: value.Properties{HasContentType: true, ContentType: "t"}}},
	{name: "PUBLISH DUP is never sent at QoS 0", v: V5, wire: `31 ("a" ())`, encodeOnly: true, packet: &Publish{Dup: true, Retain: true, Topic: []byte("a")}},
	{name: "PUBLISH 5 QoS 0", v: V5, wire: `30 ("a/b" () 'hi')`, packet: &Publish{Topic: []byte("a/b"), Payload: []byte("hi")}},
	{name: "PUBLISH 5 QoS 1", v: V5, wire: `32 ("a/b" 000A () 'hi')`, packet: &Publish{QoS: 1, Topic: []byte("a/b"), PacketID: 10, Payload: []byte("hi")}},
	{name: "PUBLISH 5 U+FEFF is kept [MQTT-1.5.4-3]", v: V5, wire: "30 (\"\uFEFFa\" () 'hi')", packet: &Publish{Topic: []byte("\uFEFFa"), Payload: []byte("hi")}},
	{name: "PUBLISH 3.1.1 U+FEFF is kept [MQTT-1.5.3-3]", v: V311, wire: "30 (\"a\uFEFF\" 'hi')", packet: &Publish{Topic: []byte("a\uFEFF"), Payload: []byte("hi")}},
	{name: "PUBLISH 5 alias for an empty topic name", v: V5, wire: `32 ("" 000A (23 0007) 'hi')`,
		packet: &Publish{QoS: 1, Topic: []byte{}, PacketID: 10, TopicAlias: 7, HasAlias: true, Payload: []byte("hi")}},
	{name: "PUBLISH 5 empty correlation data, expiry 0, format 0", v: V5, wire: `30 ("a" (02 00000000 01 00 09 0000))`,
		packet: &Publish{Topic: []byte("a"), Payload: []byte{}, HasExpiry: true, Properties: value.Properties{HasPayloadFormat: true, CorrelationData: []byte{}}}},
	{name: "PUBLISH 5 every property", v: V5, wire: `35 ("a" 0001
			(02 0000003C 23 FFFF 0B 01 0B 8001 0B FFFFFF7F 01 01 03 "json" 08 "r/t" 09 "ÿ" 26 "k" "1" 26 "j" "" 26 "k" "1") 'hi')`,
		packet: &Publish{QoS: 2, Retain: true, Topic: []byte("a"), PacketID: 1, Payload: []byte("hi"), MessageExpiry: 60, HasExpiry: true, TopicAlias: 65535, HasAlias: true,
			SubscriptionIDs: []uint32{1, 128, 268435455}, Properties: value.Properties{PayloadFormat: 1, HasPayloadFormat: true, HasContentType: true, ContentType: "json",
				ResponseTopic: "r/t", CorrelationData: []byte("ÿ"), User: users("k", "1", "j", "", "k", "1")}}},
}

var ackVectors = []vector{
	{name: "3.1 PUBACK", v: V31, wire: `40 (000A)`, packet: &Ack{Type: PUBACK, PacketID: 10}},
	{name: "3.1 PUBREL repeated", v: V31, wire: `6A (000A)`, decodeOnly: true, packet: &Ack{Type: PUBREL, PacketID: 10}},
	{name: "3.1.1 PUBREC", v: V311, wire: `50 (000A)`, packet: &Ack{Type: PUBREC, PacketID: 10}},
	{name: "3.1.1 PUBREL", v: V311, wire: `62 (000A)`, packet: &Ack{Type: PUBREL, PacketID: 10}},
	{name: "3.1.1 PUBCOMP has no code", v: V311, wire: `70 (000A)`, encodeOnly: true,
		packet: &Ack{Type: PUBCOMP, PacketID: 10, Code: PacketIdentifierNotFound, ReasonString: "x"}},
	{name: "5 PUBACK success", v: V5, wire: `40 (000A)`, packet: &Ack{Type: PUBACK, PacketID: 10}},
	{name: "5 PUBACK success spelled out", v: V5, wire: `40 (000A 00)`, decodeOnly: true, packet: &Ack{Type: PUBACK, PacketID: 10}},
	{name: "5 PUBACK success and no property spelled out", v: V5, wire: `40 (000A 00 00)`, decodeOnly: true, packet: &Ack{Type: PUBACK, PacketID: 10}},
	{name: "5 PUBACK refused", v: V5, wire: `40 (FFFF 87)`, packet: &Ack{Type: PUBACK, PacketID: 65535, Code: NotAuthorized}},
	{name: "5 PUBACK every property", v: V5, wire: `40 (000A 10 (1F "why" 26 "a" "b"))`,
		packet: &Ack{Type: PUBACK, PacketID: 10, Code: NoMatchingSubscribers, ReasonString: "why", User: users("a", "b")}},
	{name: "5 PUBREC every property", v: V5, wire: `50 (000A 91 (1F "why" 26 "a" "b"))`,
		packet: &Ack{Type: PUBREC, PacketID: 10, Code: PacketIdentifierInUse, ReasonString: "why", User: users("a", "b")}},
	{name: "5 PUBREL not found", v: V5, wire: `62 (000A 92)`, packet: &Ack{Type: PUBREL, PacketID: 10, Code: PacketIdentifierNotFound}},
	{name: "5 PUBREL every property", v: V5, wire: `62 (000A 00 (1F "why" 26 "a" "b"))`,
		packet: &Ack{Type: PUBREL, PacketID: 10, ReasonString: "why", User: users("a", "b")}},
	{name: "5 PUBCOMP every property", v: V5, wire: `70 (000A 92 (1F "why" 26 "a" "b"))`,
		packet: &Ack{Type: PUBCOMP, PacketID: 10, Code: PacketIdentifierNotFound, ReasonString: "why", User: users("a", "b")}},
	{name: "5 PUBACK unlisted code", v: V5, wire: `40 (000A 80)`, encodeOnly: true, packet: &Ack{Type: PUBACK, PacketID: 10, Code: PacketTooLarge}},
	{name: "5 PUBCOMP unlisted code", v: V5, wire: `70 (000A 92)`, encodeOnly: true, packet: &Ack{Type: PUBCOMP, PacketID: 10, Code: UnspecifiedError}},
	{name: "5 reason string that is no UTF-8 string", v: V5, wire: "40 (000A 80 (1F \"a\uFFFDb\uFFFD\"))", encodeOnly: true,
		packet: &Ack{Type: PUBACK, PacketID: 10, Code: UnspecifiedError, ReasonString: "a\xFFb\x00"}},
}

var subscribeVectors = []vector{
	{name: "3.1 SUBSCRIBE", v: V31, wire: `82 (000A "a/#" 01)`, packet: &Subscribe{PacketID: 10, Filters: []Subscription{{Filter: "a/#", QoS: 1}}}},
	{name: "3.1 SUBSCRIBE repeated", v: V31, wire: `8A (000A "a/#" 01)`, decodeOnly: true, packet: &Subscribe{PacketID: 10, Filters: []Subscription{{Filter: "a/#", QoS: 1}}}},
	{name: "3.1.1 SUBSCRIBE", v: V311, wire: `82 (000A "a" 00 "+" 02)`, packet: &Subscribe{PacketID: 10, Filters: []Subscription{{Filter: "a"}, {Filter: "+", QoS: 2}}}},
	{name: "3.1.1 SUBSCRIBE has no options", v: V311, wire: `82 (000A "a" 01)`, encodeOnly: true,
		packet: &Subscribe{PacketID: 10, SubscriptionID: 4, User: users("a", "b"), Filters: []Subscription{{Filter: "a", QoS: 1, NoLocal: true, RetainAsPublished: true, RetainHandling: 2}}}},
	{name: "5 SUBSCRIBE", v: V5, wire: `82 (000A () "a" 2E)`,
		packet: &Subscribe{PacketID: 10, Filters: []Subscription{{Filter: "a", QoS: 2, NoLocal: true, RetainAsPublished: true, RetainHandling: 2}}}},
	{name: "5 SUBSCRIBE every property", v: V5, wire: `82 (000A (0B FFFFFF7F 26 "a" "b") "$share/g/a" 11 "b" 04)`,
		packet: &Subscribe{PacketID: 10, SubscriptionID: 268435455, User: users("a", "b"),
			Filters: []Subscription{{Filter: "$share/g/a", QoS: 1, RetainHandling: 1}, {Filter: "b", NoLocal: true}}}},
	{name: "3.1 SUBACK", v: V31, wire: `90 (000A 00 02)`, packet: &Suback{PacketID: 10, Codes: []ReasonCode{0, 2}}},
	{name: "3.1 SUBACK has no failure", v: V31, wire: `90 (000A 00 01)`, encodeOnly: true, packet: &Suback{PacketID: 10, Codes: []ReasonCode{NotAuthorized, 1}}},
	{name: "3.1.1 SUBACK", v: V311, wire: `90 (000A 00 01 02 80)`, packet: &Suback{PacketID: 10, Codes: []ReasonCode{0, 1, 2, 0x80}}},
	{name: "3.1.1 SUBACK has one failure", v: V311, wire: `90 (000A 80)`, encodeOnly: true, packet: &Suback{PacketID: 10, Codes: []ReasonCode{NotAuthorized}, ReasonString: "x"}},
	{name: "5 SUBACK every property", v: V5, wire: `90 (000A (1F "why" 26 "a" "b") 00 01 02 80 83 87 8F 91 97 9E A1 A2)`,
		packet: &Suback{PacketID: 10, Codes: []ReasonCode{0, 1, 2, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2}, ReasonString: "why", User: users("a", "b")}},
	{name: "3.1.1 UNSUBSCRIBE", v: V311, wire: `A2 (000A "a" "b/+")`, packet: &Unsubscribe{PacketID: 10, Filters: []string{"a", "b/+"}}},
	{name: "3.1 UNSUBSCRIBE repeated", v: V31, wire: `AA (000A "a")`, decodeOnly: true, packet: &Unsubscribe{PacketID: 10, Filters: []string{"a"}}},
	{name: "5 UNSUBSCRIBE", v: V5, wire: `A2 (000A () "a")`, packet: &Unsubscribe{PacketID: 10, Filters: []string{"a"}}},
	{name: "5 UNSUBSCRIBE every property", v: V5, wire: `A2 (000A (26 "a" "b" 26 "a" "c") "a")`,
		packet: &Unsubscribe{PacketID: 10, User: users("a", "b", "a", "c"), Filters: []string{"a"}}},
	{name: "3.1.1 UNSUBACK", v: V311, wire: `B0 (000A)`, packet: &Unsuback{PacketID: 10}},
	{name: "3.1.1 UNSUBACK has no codes", v: V311, wire: `B0 (000A)`, encodeOnly: true, packet: &Unsuback{PacketID: 10, Codes: []ReasonCode{0}, ReasonString: "x"}},
	{name: "5 UNSUBACK every property", v: V5, wire: `B0 (000A (1F "why" 26 "a" "b") 00 11 80 83 87 8F 91)`,
		packet: &Unsuback{PacketID: 10, Codes: []ReasonCode{0, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91}, ReasonString: "why", User: users("a", "b")}},
}

var otherVectors = []vector{
	{name: "PINGREQ", v: V311, wire: `C0 ()`, packet: &ping{PINGREQ}},
	{name: "PINGRESP", v: V5, wire: `D0 ()`, packet: &ping{PINGRESP}},
	{name: "3.1.1 DISCONNECT", v: V311, wire: `E0 ()`, packet: &Disconnect{}},
	{name: "3.1.1 DISCONNECT has no code", v: V311, wire: `E0 ()`, encodeOnly: true, packet: &Disconnect{Code: SessionTakenOver, ReasonString: "x"}},
	{name: "5 DISCONNECT", v: V5, wire: `E0 ()`, packet: &Disconnect{}},
	{name: "5 DISCONNECT spelled out", v: V5, wire: `E0 (00)`, decodeOnly: true, packet: &Disconnect{}},
	{name: "5 DISCONNECT code without property length", v: V5, wire: `E0 (04)`, packet: &Disconnect{Code: DisconnectWithWill}},
	{name: "5 DISCONNECT code with property length", v: V5, wire: `E0 (8E 00)`, decodeOnly: true, packet: &Disconnect{Code: SessionTakenOver}},
	{name: "5 DISCONNECT every property", v: V5, wire: `E0 (9C (11 00000000 1C "other" 1F "why" 26 "a" "b"))`,
		packet: &Disconnect{Code: UseAnotherServer, HasSessionExpiry: true, ReasonString: "why", User: users("a", "b"), ServerReference: "other"}},
	{name: "5 DISCONNECT unlisted code", v: V5, wire: `E0 (80)`, encodeOnly: true, packet: &Disconnect{Code: ClientIdentifierNotValid}},
	{name: "5 AUTH success", v: V5, wire: `F0 ()`, packet: &Auth{}},
	{name: "5 AUTH success spelled out", v: V5, wire: `F0 (00 ())`, decodeOnly: true, packet: &Auth{}},
	{name: "5 AUTH every property", v: V5, wire: `F0 (18 (15 "SCRAM" 16 "data" 1F "why" 26 "a" "b"))`,
		packet: &Auth{Code: ContinueAuthentication, Method: "SCRAM", Data: []byte("data"), ReasonString: "why", User: users("a", "b")}},
	{name: "5 AUTH again, empty data", v: V5, wire: `F0 (19 (15 "M" 16 0000))`, packet: &Auth{Code: Reauthenticate, Method: "M", Data: []byte{}}},
	{name: "5 AUTH has no failure", v: V5, wire: ``, encodeOnly: true, packet: &Auth{Code: NotAuthorized, Method: "M"}},
	{name: "3.1.1 has no AUTH", v: V311, wire: ``, encodeOnly: true, packet: &Auth{Code: Reauthenticate, Method: "M"}},
}
