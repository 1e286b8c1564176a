// Package mqtttest is for tests that speak MQTT to a real broker byte by byte: it
// starts the broker inside the test's process and has a client that does nothing
// by itself.
//
//	b := mqtttest.Start(t, nil)                          // ephemeral ports, temporary folder
//	sub := b.Connect(t, mqtt.V5, "dev-b")                // CONNECT, CONNACK 0
//	sub.Subscribe("line/#", 1)                           // SUBSCRIBE, SUBACK
//	pub := b.Connect(t, mqtt.V311, "dev-a")
//	pub.Publish("line/1", 1, "21.5")                     // into its own inbox, PUBACK 0
//	p := sub.ExpectPublish("line/1", "21.5")
//	sub.Ack(p)                                           // PUBACK
//	sub.ExpectNothing()                                  // PINGREQ: the next packet is its PINGRESP
//
// # The broker
//
// Start runs a replica as broker/main.go does, over a model and API clients that
// are the same for every test (World). What it logged is printed when the test
// fails. A whole test binary can share one with Open and Close in TestMain.
//
// # The client
//
// Client writes what it is told, also what no client may send (SendRaw, Wire),
// and reads when it is told, in the order of the packets. It never answers by
// itself unless AutoAck is set. A test that expected something else fails with the
// history of the connection, both directions. A Client is its test's alone: it
// has no lock.
//
// Publish, Subscribe and Unsubscribe wait for their own answer; what comes before it
// is kept and read by the next Expect.
//
// Nothing sleeps. That nothing came is shown by a packet that must come after it:
// ExpectNothing for what the broker has already decided, a value published later
// on the same path (ExpectPublish of it) for what is still on its way.
package mqtttest
