package conformance

import (
	"bytes"
	"strings"
	"testing"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/mqtttest"
)

func TestTheFirstPacketMustBeCONNECT(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.0-1", "5 MQTT-3.14.0-1", "3.1.1 MQTT-3.1.0-1", "3.1.1 MQTT-3.2.0-1")
	for name, wire := range map[string]string{
		"PUBLISH": `30 ("a" 'x')`, "PUBACK": `40 (0001)`, "PUBREL": `62 (0001)`, "SUBSCRIBE": `82 (0001 "a" 00)`,
		"UNSUBSCRIBE": `A2 (0001 "a")`, "PINGREQ": `C0 00`, "DISCONNECT": `E0 00`, "AUTH": `F0 00`, "CONNACK": `20 (00 00)`, "type 0": `00 00`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := broker.Dial(t, mqtt.V5, "tcp")
			c.SendWire(wire)
			c.ExpectClosed()
		})
	}
}

func TestASecondCONNECTIsAProtocolError(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.0-2", "5 MQTT-3.2.0-2", "3.1.1 MQTT-3.1.0-2")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		c := broker.Connect(t, v, "dev-a")
		c.Send(broker.Credentials("dev-a", named(c.ID)))
		c.ExpectRefusal(mqtt.ProtocolError)
	})
}

func TestOtherProtocolsAndVersionsAreRefused(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.2-1", "5 MQTT-3.1.2-2", "3.1.1 MQTT-3.1.2-1", "3.1.1 MQTT-3.1.2-2")
	for _, x := range []struct {
		name, wire string
		v          mqtt.Version // whose CONNACK comes
	}{
		{"MQTT level 6", `10 ("MQTT" 06 02 0000 () "c")`, mqtt.V5},
		{"MQTT level 3", `10 ("MQTT" 03 02 0000 "c")`, mqtt.V311},
		{"MQTT level 0", `10 ("MQTT" 00 02 0000 "c")`, mqtt.V311},
		{"a bridge's level", `10 ("MQTT" 84 02 0000 "c")`, mqtt.V311},
		{"MQIsdp level 4", `10 ("MQIsdp" 04 02 0000 "c")`, mqtt.V311},
		{"another name at level 5", `10 ("mqtt" 05 02 0000 () "c")`, mqtt.V5},
		{"another name at level 4", `10 ("HTTP" 04 02 0000 "c")`, mqtt.V311},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			c := broker.Dial(t, x.v, "tcp")
			c.SendWire(x.wire)
			a := mqtttest.Expect[mqtt.Connack](c)
			if a.Code != mqtt.UnsupportedProtocolVersion {
				c.Fatalf("refused with %s, want the unsupported version named", a.Code.Error())
			}
			c.ExpectClosed()
		})
	}
}

// A CONNECT that is wrong in itself is refused, in MQTT 3 without a word. From here
// on <u> stands for a user name and password that would be accepted.
func TestCONNECTIsCheckedFieldByField(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.2-3", "5 MQTT-3.1.2-9", "5 MQTT-3.1.2-11", "5 MQTT-3.1.2-12", "5 MQTT-3.1.2-13", "5 MQTT-3.1.2-16", "5 MQTT-3.1.2-17",
		"5 MQTT-3.1.2-18", "5 MQTT-3.1.2-19", "5 MQTT-3.1.3-1", "5 MQTT-3.1.3-3", "5 MQTT-3.1.3-4", "5 MQTT-3.1.3-11", "5 MQTT-3.1.3-12", "5 MQTT-3.1.4-1",
		"5 D5-04", "3.1.1 MQTT-3.1.2-3", "3.1.1 MQTT-3.1.2-9", "3.1.1 MQTT-3.1.2-11", "3.1.1 MQTT-3.1.2-13", "3.1.1 MQTT-3.1.2-14", "3.1.1 MQTT-3.1.2-15",
		"3.1.1 MQTT-3.1.2-18", "3.1.1 MQTT-3.1.2-19", "3.1.1 MQTT-3.1.2-20", "3.1.1 MQTT-3.1.2-21", "3.1.1 MQTT-3.1.2-22", "3.1.1 MQTT-3.1.3-1",
		"3.1.1 MQTT-3.1.3-3", "3.1.1 MQTT-3.1.3-4", "3.1.1 MQTT-3.1.3-10", "3.1.1 MQTT-3.1.3-11", "3.1.1 MQTT-3.1.4-1", "3.1.1 MQTT-3.2.2-6")
	user := `"dev-a" "` + mqtttest.Secret("dev-a") + `"`
	for _, x := range []struct {
		name    string
		flags   string
		payload string // behind the property length
		v5      mqtt.ReasonCode
		only    mqtt.Version // 0: both
	}{
		{"reserved flag", `C3`, `"c" <u>`, mqtt.MalformedPacket, 0},
		{"will without its topic", `C6`, `"c" <p>`, mqtt.MalformedPacket, 0},
		{"will fields without the flag", `C2`, `"c" <p> "t" "m" <u>`, mqtt.MalformedPacket, 0},
		{"will QoS without a will", `CA`, `"c" <u>`, mqtt.MalformedPacket, 0},
		{"will QoS 3", `DE`, `"c" <p> "t" "m" <u>`, mqtt.MalformedPacket, 0},
		{"will retain without a will", `E2`, `"c" <u>`, mqtt.MalformedPacket, 0},
		{"user name without its flag", `02`, `"c" "dev-a"`, mqtt.MalformedPacket, 0},
		{"user name flag without a user name", `82`, `"c"`, mqtt.MalformedPacket, 0},
		{"password without its flag", `82`, `"c" <u>`, mqtt.MalformedPacket, 0},
		{"password flag without a password", `C2`, `"c" "dev-a"`, mqtt.MalformedPacket, 0},
		{"password flag without user name flag", `42`, `"c" "secret"`, 0, mqtt.V311},
		{"no client identifier", `02`, ``, mqtt.MalformedPacket, 0},
		{"fields in another order", `C6`, `<u> "c" <p> "t" "m"`, mqtt.MalformedPacket, mqtt.V5},
		{"client identifier with a surrogate", `C2`, `0003 EDA080 <u>`, mqtt.MalformedPacket, 0},
		{"client identifier with U+0000", `C2`, `0002 6100 <u>`, mqtt.MalformedPacket, 0},
		{"will topic not UTF-8", `C6`, `"c" <p> 0001 FF "m" <u>`, mqtt.MalformedPacket, 0},
		{"will topic with a wildcard", `C6`, `"c" <p> "t/#" "m" <u>`, mqtt.MalformedPacket, 0},
		{"will topic empty", `C6`, `"c" <p> "" "m" <u>`, mqtt.MalformedPacket, 0},
		{"user name not UTF-8", `82`, `"c" 0002 C328`, mqtt.MalformedPacket, 0},
		{"bytes after the end", `C2`, `"c" <u> 00`, mqtt.MalformedPacket, 0},
		{"string longer than the packet", `02`, `00FF 'c'`, mqtt.MalformedPacket, 0},
		{"will property of another packet", `C6`, `"c" (0B 01) "t" "m" <u>`, mqtt.MalformedPacket, mqtt.V5},
	} {
		each(t, []mqtt.Version{mqtt.V311, mqtt.V5}, func(t *testing.T, v mqtt.Version) {
			if x.only != 0 && x.only != v {
				t.Skip("not of this version")
			}
			wire := `10 ("MQTT" ` + map[mqtt.Version]string{mqtt.V311: "04 ", mqtt.V5: "05 "}[v] + x.flags + ` 0000 <p>` + x.payload + `)`
			properties := ""
			if v >= mqtt.V5 {
				properties = "()"
			}
			expectBadConnect(t, v, strings.NewReplacer("<u>", user, "<p>", properties).Replace(wire), x.v5)
		})
	}
	for name, x := range map[string]struct {
		properties string
		code       mqtt.ReasonCode
	}{
		"Receive Maximum 0":                {`21 0000`, mqtt.ProtocolError},
		"Maximum Packet Size 0":            {`27 00000000`, mqtt.ProtocolError},
		"Session Expiry twice":             {`11 00000001 11 00000001`, mqtt.ProtocolError},
		"Receive Maximum twice":            {`21 0001 21 0001`, mqtt.ProtocolError},
		"Maximum Packet Size twice":        {`27 00000100 27 00000100`, mqtt.ProtocolError},
		"Topic Alias Maximum twice":        {`22 0001 22 0001`, mqtt.ProtocolError},
		"Request Problem Information 2":    {`17 02`, mqtt.ProtocolError},
		"Request Response Information 2":   {`19 02`, mqtt.ProtocolError},
		"authentication data alone":        {`16 "x"`, mqtt.ProtocolError},
		"a property of another packet":     {`23 0001`, mqtt.MalformedPacket},
		"a property that does not exist":   {`7F`, mqtt.MalformedPacket},
		"user property not UTF-8":          {`26 "k" 0001 FF`, mqtt.MalformedPacket},
		"property length beyond its block": {`11 0000`, mqtt.MalformedPacket},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectBadConnect(t, mqtt.V5, `10 ("MQTT" 05 C2 0000 (`+x.properties+`) "c" `+user+`)`, x.code)
		})
	}
}

func expectBadConnect(t *testing.T, v mqtt.Version, wire string, v5 mqtt.ReasonCode) {
	t.Helper()
	c := broker.Dial(t, v, "tcp")
	c.SendWire(wire)
	if v >= mqtt.V5 {
		a := mqtttest.Expect[mqtt.Connack](c)
		if a.Code != v5 || a.SessionPresent {
			c.Fatalf("refused with %s, session present %v; want %s and false", a.Code.Error(), a.SessionPresent, v5.Error())
		}
	}
	c.ExpectClosed()
}

func TestAGoodCONNECTIsAnsweredWithSuccess(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.4-5", "5 MQTT-3.2.2-1", "3.1.1 MQTT-3.1.4-4")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		c := broker.Dial(t, v, "tcp")
		c.Send(broker.Credentials("dev-a"))
		p := c.Next()
		if p.Header.Type != mqtt.CONNACK || p.Header.Flags != 0 || p.Raw[2] != 0 || p.Raw[3] != 0 {
			c.Fatalf("got %x, want a CONNACK with flags 0 and code 0", p.Raw)
		}
		if v < mqtt.V5 && !bytes.Equal(p.Raw, []byte{0x20, 2, 0, 0}) {
			c.Fatalf("got %x, want 20020000", p.Raw)
		}
		c.ExpectNothing()
	})
}

func TestClientIdentifiersOf1To23LettersAndDigitsAreTaken(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.3-5", "3.1.1 MQTT-3.1.3-5")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		first := map[mqtt.Version]string{mqtt.V31: "A", mqtt.V311: "b", mqtt.V5: "9"}[v]
		for _, id := range []string{first, first + "BCDEFGHIJKLMNOPQRSTUVW", first + "0123456789XYZabcdefghi", first + "jklmnopqrstuvwxyz"} {
			broker.Connect(t, v, "dev-a", named(id)).Disconnect()
		}
	})
	for _, v := range []mqtt.Version{mqtt.V311, mqtt.V5} {
		broker.Connect(t, v, "dev-a", named(strings.Repeat("ä/ ", 40)+v.String())).Disconnect()
	}
}

func TestAnEmptyClientIdentifierGetsAUniqueOne(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.3-6", "5 MQTT-3.1.3-7", "5 MQTT-3.2.2-16", "3.1.1 MQTT-3.1.3-6")
	a := broker.Connect(t, mqtt.V5, "dev-a", all(named(""), persistent))
	b := broker.Connect(t, mqtt.V5, "dev-a", all(named(""), persistent))
	if a.Connack.AssignedClientID == "" || a.Connack.AssignedClientID == b.Connack.AssignedClientID {
		t.Fatalf("assigned %q and %q, want two identifiers", a.Connack.AssignedClientID, b.Connack.AssignedClientID)
	}
	a.Disconnect()
	again := a.Again(persistent)
	if !again.Connack.SessionPresent {
		again.Fatalf("no session under the assigned identifier")
	}
	if again.Connack.AssignedClientID != "" {
		again.Fatalf("assigned %q to a client that has an identifier", again.Connack.AssignedClientID)
	}
	// Two clients without an identifier do not take each other over.
	x, y := broker.Connect(t, mqtt.V311, "dev-a", named("")), broker.Connect(t, mqtt.V311, "dev-a", named(""))
	x.ExpectNothing()
	y.ExpectNothing()
}

func TestAnEmptyClientIdentifierNeedsACleanSessionBeforeMQTT5(t *testing.T) {
	t.Parallel()
	shows(t, "3.1.1 MQTT-3.1.3-8", "3.1.1 MQTT-3.1.3-9", "3.1.1 MQTT-3.2.2-4", "3.1.1 MQTT-3.2.2-5")
	c := broker.Dial(t, mqtt.V311, "tcp")
	c.Send(broker.Credentials("dev-a", all(named(""), persistent)))
	if p := c.Next(); !bytes.Equal(p.Raw, []byte{0x20, 2, 0, 2}) {
		c.Fatalf("got %x, want a CONNACK with code 2", p.Raw)
	}
	c.ExpectClosed()
}

func TestAnIdentifierOfAnotherIdentityIsRefused(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.3-8", "5 MQTT-3.2.2-6", "5 MQTT-3.2.2-7", "3.1.1 MQTT-3.1.3-9", "3.1.1 MQTT-3.2.2-4", "3.1.1 MQTT-3.2.2-5")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		for _, user := range []string{"dev-b", "other"} {
			holder := broker.Connect(t, v, "dev-a", persistent)
			c := broker.Dial(t, v, "tcp")
			a := c.Connect(broker.Credentials(user, all(named(holder.ID), persistent)))
			if a.Code != mqtt.ClientIdentifierNotValid || a.SessionPresent {
				c.Fatalf("got %s, session present %v; want %s and false", a.Code.Error(), a.SessionPresent, mqtt.ClientIdentifierNotValid.Error())
			}
			c.ExpectClosed()
			holder.ExpectNothing()
		}
	})
}

func TestARefusedSignInClosesAndWhatFollowsIsIgnored(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.4-2", "5 MQTT-3.1.4-6", "5 MQTT-3.2.2-6", "5 MQTT-3.2.2-7", "5 MQTT-4.13.2-1", "3.1.1 MQTT-3.1.4-5", "3.1.1 MQTT-3.2.2-4", "3.1.1 MQTT-3.2.2-5")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		topic := topicOf()
		sub := broker.Connect(t, v, "dev-b")
		sub.Subscribe(topic, 1)
		c := broker.Dial(t, v, "tcp")
		p := broker.Credentials("dev-a")
		p.Password = []byte("wrong")
		publish := &mqtt.Publish{Topic: []byte(mqtttest.Inbox("dev-a", topic)), QoS: 1, PacketID: 1, Payload: []byte("1")}
		c.SendRaw(mqtt.AppendPingreq(publish.Append(p.Append(nil, v), v)))
		if a := mqtttest.Expect[mqtt.Connack](c); a.Code != mqtt.BadUserNameOrPassword || a.SessionPresent {
			c.Fatalf("got %s, session present %v; want %s and false", a.Code.Error(), a.SessionPresent, mqtt.BadUserNameOrPassword.Error())
		}
		c.ExpectClosed()
		publisher(t).Publish(topic, 1, "2")
		sub.ExpectPublish(topic, "2")
	})
}

func TestTheSameClientIdentifierTakesTheOldConnectionOver(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.1.4-3", "3.1.1 MQTT-3.1.4-2")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		for _, next := range everyVersion {
			old := broker.Connect(t, v, "dev-a", persistent)
			fresh := broker.Connect(t, next, "dev-a", all(named(old.ID), persistent))
			old.ExpectRefusal(mqtt.SessionTakenOver)
			fresh.ExpectNothing()
			if next >= mqtt.V311 && !fresh.Connack.SessionPresent {
				fresh.Fatalf("the session was not taken over")
			}
		}
	})
}

func TestMQTT31IsItsOwnDialect(t *testing.T) {
	t.Parallel()
	shows(t, "5 D5-17")
	connack := func(p *mqtt.Connect) (*mqtttest.Client, []byte) {
		c := broker.Dial(t, mqtt.V31, "tcp")
		c.Send(p)
		return c, c.Next().Raw
	}
	for _, id := range []string{"", strings.Repeat("x", 24)} {
		c, raw := connack(broker.Credentials("dev-a", named(id)))
		if !bytes.Equal(raw, []byte{0x20, 2, 0, 2}) {
			c.Fatalf("identifier of %d characters: %x, want code 2", len(id), raw)
		}
		c.ExpectClosed()
	}
	first := broker.Connect(t, mqtt.V31, "dev-a", persistent)
	first.Disconnect()
	c, raw := connack(broker.Credentials("dev-a", all(named(first.ID), persistent)))
	if !bytes.Equal(raw, []byte{0x20, 2, 0, 0}) {
		c.Fatalf("resumed with %x, want the first byte reserved: 20020000", raw)
	}
	// There is no failure code in a SUBACK of 3.1, so the connection is closed.
	viewer := broker.Connect(t, mqtt.V31, "viewer")
	viewer.Send(&mqtt.Subscribe{PacketID: 1, Filters: []mqtt.Subscription{{Filter: mqtttest.Data("plant", "secret")}}})
	viewer.ExpectClosed()
}
