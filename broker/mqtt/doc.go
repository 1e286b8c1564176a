// Package mqtt is the wire format of MQTT 3.1, 3.1.1 and 5: it decodes, checks
// and encodes every control packet in both directions.
//
// It promises that what it decodes is what the standard allows, as far as one
// packet can show that; everything else is an *Error with the reason code and
// the standard's statement id. It promises that what it encodes decodes again.
// It does no I/O, keeps no state between packets and decides no policy.
//
// How a packet is read:
//
//  1. ParseHeader on the bytes that have arrived; not ok means read more.
//  2. Header.Validate refuses wrong flags before the body is there (optional:
//     Decode does it too). Hold Header.Size + Header.Remaining against the largest
//     packet allowed.
//  3. Decode of the packet that Header.Type names, with exactly Header.Remaining
//     bytes. CONNECT sets the version that all later packets are decoded with.
//
// How one is written: Append to a buffer, or AppendLimited for packets with a
// reason string, which within the receiver's Maximum Packet Size appends the
// packet whole, or without user properties, or without reason string as well, or
// nothing. For many subscribers of one message there is Shared.
//
// Memory: Publish.Topic and Publish.Payload alias the body they were decoded
// from. Everything else a Decode returns is a copy.
//
// Hot path: PUBLISH without properties (topic alias and expiry excepted), the four
// acknowledgments without properties and Shared.Append allocate nothing.
//
// What is left to others: where wildcards stand in a topic filter and the form
// of a shared one (package topic); anything that needs to know who is reading
// (Subscription Identifiers in a client's PUBLISH, codes of the other side: see
// ReasonCode.FromClient) or what went before (packet identifiers in use, topic
// aliases, authentication methods, a second CONNECT).
//
// What a caller hands to Append is trusted but for three things that texts made
// by a broker get wrong: strings are cut at 65,535 bytes, reason strings are made
// well-formed UTF-8, and a reason code the packet does not have becomes one it has.
package mqtt
