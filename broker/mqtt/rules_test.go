package mqtt

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// rule is a packet that breaks one rule, and how the decoder must say so.
type rule struct {
	name      string
	v         Version
	wire      string
	code      ReasonCode
	statement string
}

var rules = func() (all []rule) {
	for _, table := range [][]rule{headerRules, textRules, connectRules, connackRules, publishRules, ackRules, subscribeRules, propertyRules, otherRules} {
		all = append(all, table...)
	}
	return all
}()

var headerRules = []rule{
	{"packet type 0", V311, `00 ()`, MalformedPacket, ""},
	{"remaining length of 5 bytes", V5, `30 FFFFFFFF01`, MalformedPacket, ""},
	{"padded remaining length", V5, `40 8200 000A`, MalformedPacket, "MQTT-1.5.5-1"},
	{"padded remaining length of CONNECT", V5, `10 8E00 "MQTT" 05 02 0000 00 "c"`, MalformedPacket, "MQTT-1.5.5-1"},
	{"padded remaining length of PINGREQ", V311, `C0 8000`, MalformedPacket, "MQTT-1.5.5-1"},
	{"flags of CONNECT", V5, `11 ("MQTT" 05 02 0000 () "c")`, MalformedPacket, "MQTT-2.1.3-1"},
	{"flags of CONNECT", V311, `11 ("MQTT" 04 02 0000 "c")`, MalformedPacket, "MQTT-2.2.2-2"},
	{"flags of CONNACK", V5, `22 (00 00 ())`, MalformedPacket, "MQTT-2.1.3-1"},
	{"flags of PUBACK", V5, `42 (000A)`, MalformedPacket, "MQTT-2.1.3-1"},
	{"flags of PUBREC", V311, `52 (000A)`, MalformedPacket, "MQTT-2.2.2-2"},
	{"flags of PUBREL", V5, `60 (000A)`, MalformedPacket, "MQTT-3.6.1-1"},
	{"flags of PUBREL", V311, `6A (000A)`, MalformedPacket, "MQTT-3.6.1-1"},
	{"flags of PUBCOMP", V5, `71 (000A)`, MalformedPacket, "MQTT-2.1.3-1"},
	{"flags of SUBSCRIBE", V5, `80 (000A () "a" 00)`, MalformedPacket, "MQTT-3.8.1-1"},
	{"flags of SUBSCRIBE", V311, `80 (000A "a" 00)`, MalformedPacket, "MQTT-3.8.1-1"},
	{"flags of SUBACK", V5, `92 (000A () 00)`, MalformedPacket, "MQTT-2.1.3-1"},
	{"flags of UNSUBSCRIBE", V5, `A0 (000A () "a")`, MalformedPacket, "MQTT-3.10.1-1"},
	{"flags of UNSUBSCRIBE", V31, `A3 (000A "a")`, MalformedPacket, "MQTT-3.10.1-1"},
	{"flags of UNSUBACK", V5, `B2 (000A () 00)`, MalformedPacket, "MQTT-2.1.3-1"},
	{"flags of PINGREQ", V5, `C1 ()`, MalformedPacket, "MQTT-2.1.3-1"},
	{"flags of PINGRESP", V5, `D8 ()`, MalformedPacket, "MQTT-2.1.3-1"},
	{"flags of DISCONNECT", V5, `E1 ()`, MalformedPacket, "MQTT-3.14.1-1"},
	{"flags of DISCONNECT", V311, `E2 ()`, MalformedPacket, "MQTT-3.14.1-1"},
	{"flags of AUTH", V5, `F1 ()`, MalformedPacket, "MQTT-3.15.1-1"},
	{"AUTH before MQTT 5", V311, `F0 ()`, MalformedPacket, ""},
	{"PINGREQ with a body", V5, `C0 (00)`, MalformedPacket, ""},
	{"QoS 3", V5, `36 ("a" 000A ())`, MalformedPacket, "MQTT-3.3.1-4"},
	{"QoS 3", V311, `37 ("a" 000A)`, MalformedPacket, "MQTT-3.3.1-4"},
	{"QoS 3", V31, `36 ("a" 000A)`, MalformedPacket, "MQTT-3.3.1-4"},
	{"DUP at QoS 0", V5, `38 ("a" ())`, MalformedPacket, "MQTT-3.3.1-2"},
	{"DUP at QoS 0", V311, `39 ("a")`, MalformedPacket, "MQTT-3.3.1-2"},
}

var textRules = []rule{
	{"surrogate", V5, `30 (0003 EDA080 ())`, MalformedPacket, "MQTT-1.5.4-1"},
	{"surrogate", V311, `30 (0003 EDBFBF)`, MalformedPacket, "MQTT-1.5.3-1"},
	{"overlong form of a slash", V5, `30 (0002 C0AF ())`, MalformedPacket, "MQTT-1.5.4-1"},
	{"overlong form of U+0000", V5, `30 (0002 C080 ())`, MalformedPacket, "MQTT-1.5.4-1"},
	{"beyond U+10FFFF", V5, `30 (0004 F4908080 ())`, MalformedPacket, "MQTT-1.5.4-1"},
	{"character cut short", V5, `30 (0002 61C3 ())`, MalformedPacket, "MQTT-1.5.4-1"},
	{"lone continuation byte", V5, `82 (000A () 0009 'abcdefgh' 80 00)`, MalformedPacket, "MQTT-1.5.4-1"},
	{"U+0000 in a topic name", V5, `30 (0003 610062 ())`, MalformedPacket, "MQTT-1.5.4-2"},
	{"U+0000 in a long topic name", V311, `30 (000A 'abcdefg' 00 'hi')`, MalformedPacket, "MQTT-1.5.3-2"},
	{"U+0000 in a topic filter", V5, `82 (000A () 0002 6100 00)`, MalformedPacket, "MQTT-1.5.4-2"},
	{"U+0000 in a topic filter", V311, `A2 (000A 0002 6100)`, MalformedPacket, "MQTT-1.5.3-2"},
	{"client identifier not UTF-8", V5, `10 ("MQTT" 05 02 0000 () 0001 FF)`, MalformedPacket, "MQTT-1.5.4-1"},
	{"client identifier with U+0000", V311, `10 ("MQTT" 04 02 0000 0001 00)`, MalformedPacket, "MQTT-1.5.3-2"},
	{"user name not UTF-8", V5, `10 ("MQTT" 05 82 0000 () "c" 0001 FF)`, MalformedPacket, "MQTT-1.5.4-1"},
	{"will topic not UTF-8", V311, `10 ("MQTT" 04 06 0000 "c" 0001 FF "x")`, MalformedPacket, "MQTT-1.5.3-1"},
	{"protocol name not UTF-8", V5, `10 (0004 FFFFFFFF 05 02 0000 () "c")`, MalformedPacket, "MQTT-1.5.4-1"},
	{"user property name not UTF-8", V5, `E0 (00 (26 0001 FF "b"))`, MalformedPacket, "MQTT-1.5.4-1"},
	{"user property value with U+0000", V5, `E0 (00 (26 "a" 0001 00))`, MalformedPacket, "MQTT-1.5.4-2"},
	{"content type not UTF-8", V5, `30 ("a" (03 0001 FF))`, MalformedPacket, "MQTT-1.5.4-1"},
	{"response topic not UTF-8", V5, `30 ("a" (08 0001 FF))`, MalformedPacket, "MQTT-1.5.4-1"},
	{"reason string not UTF-8", V5, `40 (000A 80 (1F 0001 FF))`, MalformedPacket, "MQTT-1.5.4-1"},
	{"authentication method not UTF-8", V5, `F0 (18 (15 0001 FF))`, MalformedPacket, "MQTT-1.5.4-1"},
}

var connectRules = []rule{
	{"protocol name", V5, `10 ("HTTP" 05 02 0000 () "c")`, UnsupportedProtocolVersion, "MQTT-3.1.2-1"},
	{"protocol name", V311, `10 ("mqtt" 04 02 0000 "c")`, UnsupportedProtocolVersion, "MQTT-3.1.2-1"},
	{"protocol version 6", V5, `10 ("MQTT" 06 02 0000 () "c")`, UnsupportedProtocolVersion, "MQTT-3.1.2-2"},
	{"protocol version 2", V311, `10 ("MQTT" 02 02 0000 "c")`, UnsupportedProtocolVersion, "MQTT-3.1.2-2"},
	{"protocol version 3 under the name of later ones", V311, `10 ("MQTT" 03 02 0000 "c")`, UnsupportedProtocolVersion, "MQTT-3.1.2-2"},
	{"protocol version 4 of MQIsdp", V311, `10 ("MQIsdp" 04 02 0000 "c")`, UnsupportedProtocolVersion, "MQTT-3.1.2-2"},
	{"bridge level", V311, `10 ("MQTT" 84 02 0000 "c")`, UnsupportedProtocolVersion, "MQTT-3.1.2-2"},
	{"cut in the protocol name", V311, `10 (0004 'MQ')`, MalformedPacket, ""},
	{"reserved flag", V5, `10 ("MQTT" 05 03 0000 () "c")`, MalformedPacket, "MQTT-3.1.2-3"},
	{"reserved flag", V311, `10 ("MQTT" 04 03 0000 "c")`, MalformedPacket, "MQTT-3.1.2-3"},
	{"will QoS without a will", V5, `10 ("MQTT" 05 0A 0000 () "c")`, MalformedPacket, "MQTT-3.1.2-11"},
	{"will QoS without a will", V311, `10 ("MQTT" 04 0A 0000 "c")`, MalformedPacket, "MQTT-3.1.2-13"},
	{"will QoS 3", V5, `10 ("MQTT" 05 1E 0000 () "c" () "w" "x")`, MalformedPacket, "MQTT-3.1.2-12"},
	{"will QoS 3", V311, `10 ("MQTT" 04 1E 0000 "c" "w" "x")`, MalformedPacket, "MQTT-3.1.2-14"},
	{"will QoS 3", V31, `10 ("MQIsdp" 03 1E 0000 "c" "w" "x")`, MalformedPacket, "MQTT-3.1.2-14"},
	{"will retain without a will", V5, `10 ("MQTT" 05 22 0000 () "c")`, MalformedPacket, "MQTT-3.1.2-13"},
	{"will retain without a will", V311, `10 ("MQTT" 04 22 0000 "c")`, MalformedPacket, "MQTT-3.1.2-15"},
	{"password without a user name", V311, `10 ("MQTT" 04 42 0000 "c" "p")`, ProtocolError, "MQTT-3.1.2-22"},
	{"password without a user name", V31, `10 ("MQIsdp" 03 42 0000 "c" "p")`, ProtocolError, "MQTT-3.1.2-22"},
	{"no client identifier", V5, `10 ("MQTT" 05 02 0000 ())`, MalformedPacket, "MQTT-3.1.3-3"},
	{"no client identifier", V311, `10 ("MQTT" 04 02 0000)`, MalformedPacket, "MQTT-3.1.3-3"},
	{"empty client identifier", V31, `10 ("MQIsdp" 03 02 0000 "")`, ClientIdentifierNotValid, ""},
	{"client identifier of 24 characters", V31, `10 ("MQIsdp" 03 02 0000 "123456789012345678901234")`, ClientIdentifierNotValid, ""},
	{"empty client identifier without clean session", V311, `10 ("MQTT" 04 00 0000 "")`, ClientIdentifierNotValid, "MQTT-3.1.3-8"},
	{"no will topic", V5, `10 ("MQTT" 05 06 0000 () "c" ())`, MalformedPacket, "MQTT-3.1.2-9"},
	{"no will topic", V311, `10 ("MQTT" 04 06 0000 "c")`, MalformedPacket, "MQTT-3.1.2-9"},
	{"no will properties", V5, `10 ("MQTT" 05 06 0000 () "c")`, MalformedPacket, "MQTT-3.1.2-9"},
	{"no will payload", V311, `10 ("MQTT" 04 06 0000 "c" "w")`, MalformedPacket, "MQTT-3.1.2-9"},
	{"empty will topic", V5, `10 ("MQTT" 05 06 0000 () "c" () "" "x")`, MalformedPacket, "MQTT-4.7.3-1"},
	{"empty will topic", V311, `10 ("MQTT" 04 06 0000 "c" "" "x")`, MalformedPacket, "MQTT-4.7.3-1"},
	{"wildcard in the will topic", V5, `10 ("MQTT" 05 06 0000 () "c" () "w/#" "x")`, MalformedPacket, "MQTT-4.7.0-1"},
	{"wildcard in the will topic", V311, `10 ("MQTT" 04 06 0000 "c" "+" "x")`, MalformedPacket, "MQTT-4.7.1-1"},
	{"no user name", V5, `10 ("MQTT" 05 82 0000 () "c")`, MalformedPacket, "MQTT-3.1.2-17"},
	{"no user name", V311, `10 ("MQTT" 04 82 0000 "c")`, MalformedPacket, "MQTT-3.1.2-19"},
	{"no password", V5, `10 ("MQTT" 05 C2 0000 () "c" "u")`, MalformedPacket, "MQTT-3.1.2-19"},
	{"no password", V311, `10 ("MQTT" 04 C2 0000 "c" "u")`, MalformedPacket, "MQTT-3.1.2-21"},
	{"user name without its flag", V5, `10 ("MQTT" 05 02 0000 () "c" "u")`, MalformedPacket, "MQTT-3.1.2-16"},
	{"user name without its flag", V311, `10 ("MQTT" 04 02 0000 "c" "u")`, MalformedPacket, "MQTT-3.1.2-18"},
	{"password without its flag", V5, `10 ("MQTT" 05 82 0000 () "c" "u" "p")`, MalformedPacket, "MQTT-3.1.2-18"},
	{"password without its flag", V311, `10 ("MQTT" 04 82 0000 "c" "u" "p")`, MalformedPacket, "MQTT-3.1.2-20"},
	{"bytes after its end", V5, `10 ("MQTT" 05 C2 0000 () "c" "u" "p" 00)`, MalformedPacket, ""},
	{"receive maximum 0", V5, `10 ("MQTT" 05 02 0000 (21 0000) "c")`, ProtocolError, ""},
	{"maximum packet size 0", V5, `10 ("MQTT" 05 02 0000 (27 00000000) "c")`, ProtocolError, ""},
	{"request response information 2", V5, `10 ("MQTT" 05 02 0000 (19 02) "c")`, ProtocolError, ""},
	{"request problem information 2", V5, `10 ("MQTT" 05 02 0000 (17 02) "c")`, ProtocolError, ""},
	{"authentication data without a method", V5, `10 ("MQTT" 05 02 0000 (16 "x") "c")`, ProtocolError, ""},
	{"payload format 2 of the will", V5, `10 ("MQTT" 05 06 0000 () "c" (01 02) "w" "x")`, ProtocolError, ""},
	{"response topic of the will with a wildcard", V5, `10 ("MQTT" 05 06 0000 () "c" (08 "a/+") "w" "x")`, ProtocolError, "MQTT-3.3.2-14"},
}

var connackRules = []rule{
	{"reserved acknowledge flags", V5, `20 (02 00 ())`, MalformedPacket, "MQTT-3.2.2-1"},
	{"reserved acknowledge flags", V311, `20 (80 00)`, MalformedPacket, ""},
	{"session present beside an error", V5, `20 (01 87 ())`, ProtocolError, "MQTT-3.2.2-6"},
	{"session present beside an error", V311, `20 (01 05)`, ProtocolError, "MQTT-3.2.2-4"},
	{"unlisted code", V5, `20 (00 8E ())`, ProtocolError, "MQTT-3.2.2-8"},
	{"unlisted code", V311, `20 (00 06)`, ProtocolError, ""},
	{"receive maximum 0", V5, `20 (00 00 (21 0000))`, ProtocolError, ""},
	{"maximum packet size 0", V5, `20 (00 00 (27 00000000))`, ProtocolError, ""},
	{"maximum QoS 2", V5, `20 (00 00 (24 02))`, ProtocolError, ""},
	{"retain available 2", V5, `20 (00 00 (25 02))`, ProtocolError, ""},
	{"wildcard subscription available 2", V5, `20 (00 00 (28 02))`, ProtocolError, ""},
	{"subscription identifiers available 2", V5, `20 (00 00 (29 02))`, ProtocolError, ""},
	{"shared subscription available 2", V5, `20 (00 00 (2A 02))`, ProtocolError, ""},
	{"bytes after its end", V5, `20 (00 00 () 00)`, MalformedPacket, ""},
	{"bytes after its end", V311, `20 (00 00 00)`, MalformedPacket, ""},
}

var publishRules = []rule{
	{"wildcard # in the topic name", V5, `30 ("a/#" ())`, MalformedPacket, "MQTT-3.3.2-2"},
	{"wildcard + in a long topic name", V5, `32 ("abcdefgh/+/ijkl" 000A ())`, MalformedPacket, "MQTT-3.3.2-2"},
	{"wildcard beside other than ASCII", V5, `30 ("ä/#" ())`, MalformedPacket, "MQTT-3.3.2-2"},
	{"wildcard in the topic name", V311, `30 ("+")`, MalformedPacket, "MQTT-3.3.2-2"},
	{"empty topic name", V311, `30 ("")`, MalformedPacket, "MQTT-4.7.3-1"},
	{"empty topic name", V31, `30 ("")`, MalformedPacket, "MQTT-4.7.3-1"},
	{"empty topic name and no alias", V5, `30 ("" ())`, ProtocolError, "MQTT-4.7.3-1"},
	{"empty topic name and other properties", V5, `30 ("" (01 00))`, ProtocolError, "MQTT-4.7.3-1"},
	{"packet identifier 0", V5, `32 ("a" 0000 ())`, ProtocolError, "MQTT-2.2.1-3"},
	{"packet identifier 0", V311, `34 ("a" 0000)`, ProtocolError, "MQTT-2.3.1-1"},
	{"no packet identifier", V311, `32 ("a")`, MalformedPacket, ""},
	{"no property length", V5, `32 ("a" 000A)`, MalformedPacket, "MQTT-2.2.2-1"},
	{"topic alias 0", V5, `30 ("a" (23 0000))`, TopicAliasInvalid, "MQTT-3.3.2-8"},
	{"payload format 2", V5, `30 ("a" (01 02))`, ProtocolError, ""},
	{"response topic with a wildcard", V5, `30 ("a" (08 "r/#"))`, ProtocolError, "MQTT-3.3.2-14"},
	{"empty response topic", V5, `30 ("a" (08 ""))`, ProtocolError, "MQTT-4.7.3-1"},
	{"subscription identifier 0", V5, `30 ("a" (0B 00))`, ProtocolError, ""},
	{"topic name longer than the packet", V311, `30 (00FF 'a')`, MalformedPacket, ""},
}

var ackRules = []rule{
	{"PUBACK identifier 0", V5, `40 (0000)`, ProtocolError, "MQTT-2.2.1-5"},
	{"PUBREL identifier 0", V311, `62 (0000)`, ProtocolError, "MQTT-2.3.1-6"},
	{"PUBACK without identifier", V5, `40 ()`, MalformedPacket, ""},
	{"PUBACK code before MQTT 5", V311, `40 (000A 00)`, MalformedPacket, ""},
	{"PUBACK unlisted code", V5, `40 (000A 92)`, ProtocolError, "MQTT-3.4.2-1"},
	{"PUBACK code of no packet", V5, `40 (000A FF)`, ProtocolError, "MQTT-3.4.2-1"},
	{"PUBREC unlisted code", V5, `50 (000A 01)`, ProtocolError, "MQTT-3.5.2-1"},
	{"PUBREL unlisted code", V5, `62 (000A 80)`, ProtocolError, "MQTT-3.6.2-1"},
	{"PUBCOMP unlisted code", V5, `70 (000A 10)`, ProtocolError, "MQTT-3.7.2-1"},
	{"PUBACK bytes after its end", V5, `40 (000A 00 () 00)`, MalformedPacket, ""},
}

var subscribeRules = []rule{
	{"SUBSCRIBE identifier 0", V5, `82 (0000 () "a" 00)`, ProtocolError, "MQTT-2.2.1-3"},
	{"SUBSCRIBE identifier 0", V311, `82 (0000 "a" 00)`, ProtocolError, "MQTT-2.3.1-1"},
	{"SUBSCRIBE without filter", V5, `82 (000A ())`, ProtocolError, "MQTT-3.8.3-2"},
	{"SUBSCRIBE without filter", V311, `82 (000A)`, ProtocolError, "MQTT-3.8.3-3"},
	{"SUBSCRIBE empty filter", V5, `82 (000A () "" 00)`, MalformedPacket, "MQTT-4.7.3-1"},
	{"SUBSCRIBE empty filter", V311, `82 (000A "a" 00 "" 00)`, MalformedPacket, "MQTT-4.7.3-1"},
	{"SUBSCRIBE filter without options", V5, `82 (000A () "a")`, MalformedPacket, ""},
	{"SUBSCRIBE reserved option bit 6", V5, `82 (000A () "a" 40)`, MalformedPacket, "MQTT-3.8.3-5"},
	{"SUBSCRIBE reserved option bit 7", V5, `82 (000A () "a" 00 "b" 80)`, MalformedPacket, "MQTT-3.8.3-5"},
	{"SUBSCRIBE reserved bits", V311, `82 (000A "a" 04)`, MalformedPacket, "MQTT-3-8.3-4"},
	{"SUBSCRIBE QoS 3", V5, `82 (000A () "a" 03)`, ProtocolError, ""},
	{"SUBSCRIBE QoS 3", V311, `82 (000A "a" 03)`, MalformedPacket, "MQTT-3-8.3-4"},
	{"SUBSCRIBE QoS 3", V31, `82 (000A "a" 03)`, MalformedPacket, "MQTT-3-8.3-4"},
	{"SUBSCRIBE retain handling 3", V5, `82 (000A () "a" 30)`, ProtocolError, ""},
	{"SUBSCRIBE no local on a shared subscription", V5, `82 (000A () "$share/g/a" 04)`, ProtocolError, "MQTT-3.8.3-4"},
	{"SUBSCRIBE subscription identifier 0", V5, `82 (000A (0B 00) "a" 00)`, ProtocolError, ""},
	{"SUBSCRIBE no property length", V5, `82 (000A)`, MalformedPacket, "MQTT-2.2.2-1"},
	{"SUBACK identifier 0", V5, `90 (0000 () 00)`, ProtocolError, "MQTT-2.2.1-6"},
	{"SUBACK identifier 0", V311, `90 (0000 00)`, ProtocolError, "MQTT-2.3.1-7"},
	{"SUBACK unlisted code", V5, `90 (000A () 10)`, ProtocolError, "MQTT-3.9.3-2"},
	{"SUBACK unlisted code", V311, `90 (000A 87)`, ProtocolError, "MQTT-3.9.3-2"},
	{"SUBACK failure", V31, `90 (000A 80)`, ProtocolError, "MQTT-3.9.3-2"},
	{"SUBACK without code", V5, `90 (000A ())`, ProtocolError, ""},
	{"SUBACK without code", V311, `90 (000A)`, ProtocolError, ""},
	{"UNSUBSCRIBE identifier 0", V5, `A2 (0000 () "a")`, ProtocolError, "MQTT-2.2.1-3"},
	{"UNSUBSCRIBE without filter", V5, `A2 (000A ())`, ProtocolError, "MQTT-3.10.3-2"},
	{"UNSUBSCRIBE without filter", V311, `A2 (000A)`, ProtocolError, "MQTT-3.10.3-2"},
	{"UNSUBSCRIBE empty filter", V5, `A2 (000A () "")`, MalformedPacket, "MQTT-4.7.3-1"},
	{"UNSUBACK identifier 0", V5, `B0 (0000 () 00)`, ProtocolError, "MQTT-2.2.1-6"},
	{"UNSUBACK unlisted code", V5, `B0 (000A () 01)`, ProtocolError, "MQTT-3.11.3-2"},
	{"UNSUBACK without code", V5, `B0 (000A ())`, ProtocolError, ""},
	{"UNSUBACK codes before MQTT 5", V311, `B0 (000A 00)`, MalformedPacket, ""},
}

var propertyRules = []rule{
	{"property length beyond the packet", V5, `30 ("a" 05 0100)`, MalformedPacket, ""},
	{"padded property length", V5, `30 ("a" 8000)`, MalformedPacket, "MQTT-1.5.5-1"},
	{"property length of 5 bytes", V5, `30 ("a" 8080808001)`, MalformedPacket, ""},
	{"padded subscription identifier", V5, `30 ("a" (0B 8100))`, MalformedPacket, "MQTT-1.5.5-1"},
	{"padded property identifier", V5, `30 ("a" (8100 01))`, MalformedPacket, "MQTT-1.5.5-1"},
	{"property identifier 0", V5, `30 ("a" (00))`, MalformedPacket, ""},
	{"property identifier of a gap", V5, `30 ("a" (04 00))`, MalformedPacket, ""},
	{"property identifier above all", V5, `30 ("a" (2B 00))`, MalformedPacket, ""},
	{"property identifier of two bytes", V5, `30 ("a" (8101 00))`, MalformedPacket, ""},
	{"property cut short by the property length", V5, `30 ("a" (02 0000) 0000)`, MalformedPacket, ""},
	{"string cut short by the property length", V5, `30 ("a" (03 0004 'js') 'on')`, MalformedPacket, ""},
	{"user property without value", V5, `30 ("a" (26 "k"))`, MalformedPacket, ""},
}

var otherRules = []rule{
	{"DISCONNECT body before MQTT 5", V311, `E0 (00)`, MalformedPacket, ""},
	{"DISCONNECT unlisted code", V5, `E0 (01)`, ProtocolError, "MQTT-3.14.2-1"},
	{"DISCONNECT code of no packet", V5, `E0 (7F)`, ProtocolError, "MQTT-3.14.2-1"},
	{"DISCONNECT bytes after its end", V5, `E0 (00 () 00)`, MalformedPacket, ""},
	{"AUTH unlisted code", V5, `F0 (80 (15 "M"))`, ProtocolError, "MQTT-3.15.2-1"},
	{"AUTH without method", V5, `F0 (18 (16 "x"))`, ProtocolError, ""},
	{"AUTH without property length", V5, `F0 (18)`, MalformedPacket, "MQTT-2.2.2-1"},
	{"AUTH bytes after its end", V5, `F0 (18 (15 "M") 00)`, MalformedPacket, ""},
}

func TestRulesAreRefusedWithCodeAndStatement(t *testing.T) {
	for _, x := range rules {
		t.Run(strings.TrimSpace(x.v.String()+" "+x.name+" "+x.statement), func(t *testing.T) {
			p, err := decode(x.v, wire(x.wire))
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("decoded %+v, error %v; want an *Error", p, err)
			}
			if e.Code != x.code || e.Statement != x.statement {
				t.Errorf("refused with %s [%s]: %s; want %s [%s]", e.Code.Error(), e.Statement, e.Detail, x.code.Error(), x.statement)
			}
			if !errors.Is(err, x.code) {
				t.Errorf("errors.Is does not find %s in %v", x.code, err)
			}
		})
	}
}

// sampleProperties is one well-formed property of each kind.
var sampleProperties = map[property]string{
	payloadFormat: `01 01`, messageExpiry: `02 00000001`, contentType: `03 "x"`, responseTopic: `08 "x"`, correlationData: `09 "x"`,
	subscriptionIdentifier: `0B 01`, sessionExpiry: `11 00000001`, assignedClientID: `12 "x"`, serverKeepAlive: `13 0001`, authMethod: `15 "x"`,
	authData: `16 "x"`, requestProblem: `17 01`, willDelay: `18 00000001`, requestResponse: `19 01`, responseInformation: `1A "x"`,
	serverReference: `1C "x"`, reasonString: `1F "x"`, receiveMaximum: `21 0001`, topicAliasMaximum: `22 0001`, topicAlias: `23 0001`,
	maximumQoS: `24 01`, retainAvailable: `25 01`, userProperty: `26 "k" "v"`, maximumPacketSize: `27 00000001`, wildcardAvailable: `28 01`,
	identifiersAvailable: `29 01`, sharedAvailable: `2A 01`,
}

// propertyFrames has each packet with room for properties at the colon.
var propertyFrames = map[PacketType]string{
	will:    `10 ("MQTT" 05 06 0000 () "c" (:) "w" "x")`,
	CONNECT: `10 ("MQTT" 05 02 0000 (:) "c")`, CONNACK: `20 (00 00 (:))`, PUBLISH: `30 ("a" (:))`,
	PUBACK: `40 (000A 00 (:))`, PUBREC: `50 (000A 00 (:))`, PUBREL: `62 (000A 00 (:))`, PUBCOMP: `70 (000A 00 (:))`,
	SUBSCRIBE: `82 (000A (:) "a" 00)`, SUBACK: `90 (000A (:) 00)`, UNSUBSCRIBE: `A2 (000A (:) "a")`, UNSUBACK: `B0 (000A (:) 00)`,
	DISCONNECT: `E0 (00 (:))`, AUTH: `F0 (00 (:))`,
}

func TestPropertiesStandOnlyWhereTheStandardListsThemAndOnlyOnce(t *testing.T) {
	for p, sample := range sampleProperties {
		for on, frame := range propertyFrames {
			// What one property needs beside it.
			beside := ""
			switch {
			case on == AUTH && p != authMethod, p == authData:
				beside = sampleProperties[authMethod]
			}
			with := func(properties string) error {
				_, err := decode(V5, wire(strings.Replace(frame, ":", properties, 1)))
				return err
			}
			once, twice := with(beside+sample), with(beside+sample+sample)
			switch {
			case !propertyTable[p].on.has(on):
				if !errors.Is(once, MalformedPacket) {
					t.Errorf("%s on packet type %d: error %v, want %v", p, on, once, MalformedPacket)
				}
			case once != nil:
				t.Errorf("%s on packet type %d: %v", p, on, once)
			case p == userProperty || p == subscriptionIdentifier && on == PUBLISH:
				if twice != nil {
					t.Errorf("%s twice on packet type %d: %v", p, on, twice)
				}
			default:
				if !errors.Is(twice, ProtocolError) {
					t.Errorf("%s twice on packet type %d: error %v, want %v", p, on, twice, ProtocolError)
				}
			}
		}
	}
	for p, row := range propertyTable {
		if row.name != "" && sampleProperties[property(p)] == "" {
			t.Errorf("%s has no sample", property(p))
		}
	}
}

// Every statement id the decoders can name has a rule above that names it.
func TestEveryStatementTheDecoderNamesHasATest(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	tested := map[string]bool{}
	for _, x := range rules {
		tested[x.statement] = true
	}
	quoted := regexp.MustCompile(`"(MQTT-[0-9.-]+)"`)
	found := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range quoted.FindAllSubmatch(source, -1) {
			found++
			if !tested[string(m[1])] && string(m[1]) != "MQTT-3.1.0-1" {
				t.Errorf("%s names %s, which no rule of this test breaks", name, m[1])
			}
		}
	}
	if found < 40 {
		t.Fatalf("found %d statement ids in the sources, the search is broken", found)
	}
}

func TestCONNECTDecoderRefusesOtherPackets(t *testing.T) {
	var e *Error
	if err := new(Connect).Decode(Header{Type: PUBLISH}, nil); !errors.As(err, &e) || e.Code != ProtocolError || e.Statement != "MQTT-3.1.0-1" {
		t.Errorf("PUBLISH before CONNECT [MQTT-3.1.0-1]: error %v", err)
	}
	for typ := CONNACK; typ <= AUTH; typ++ {
		p, other := newPacket(typ), Header{Type: CONNECT}
		if _, isPing := p.(*ping); isPing {
			continue
		}
		if err := p.Decode(V5, other, nil); !errors.As(err, &e) || e.Code != ProtocolError {
			t.Errorf("%s decoder given a CONNECT: error %v", typ, err)
		}
	}
}

func TestRefusedVersionSaysHowToAnswerIt(t *testing.T) {
	for _, x := range []struct {
		wire string
		want Version
	}{
		{`10 ("MQTT" 06 02 0000 () "c")`, V5},
		{`10 ("HTTP" 05 02 0000 () "c")`, V5},
		{`10 ("MQTT" 02 02 0000 "c")`, V311},
		{`10 ("MQTT" 84 02 0000 "c")`, V311}, // a bridge
		{`10 ("MQIsdp" 04 02 0000 "c")`, V311},
		{`10 (0004 'MQ')`, 0},
		{`10 ("MQTT" 05 03 0000 () "c")`, V5},
		{`10 ("MQIsdp" 03 02 0000 "")`, V31},
	} {
		p, err := decode(V5, wire(x.wire))
		if got := p.(connect).Version; err == nil || got != x.want {
			t.Errorf("%s: version %v with error %v, want %v and an error", x.wire, got, err, x.want)
		}
	}
}
