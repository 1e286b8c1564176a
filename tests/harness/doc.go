// Package harness runs a real broker process for a test: built once per test
// binary, started over a temporary folder on ports of its own, killed and started
// again as the test wishes, and ended by process id whatever becomes of the test.
// What the broker printed is logged when the test fails.
//
//	b := harness.Start(t, harness.Options{Clients: harness.Clients("press-7")})
//	c := b.Dial(t)                       // a connection that speaks raw MQTT
//	c.Connect(b.ConnectAs("press-7", "device-1"))
//	c.Publish(harness.Inbox("press-7", "line/1"), 1, "21.5")
//	b.Kill()                             // kill -9
//	b.Restart(t)                         // same ports, same data
//	rows := b.History(t, "press-7", "line/1")
//
// Names: every client lies in the workspace Workspace, its secret is Secret(id),
// it may publish and subscribe to everything and has every scope, unless a test
// gives its own list.
//
// Nothing here sleeps: Eventually asks again until a condition holds, Conn reads
// with a deadline.
package harness
