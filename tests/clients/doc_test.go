// Package clients_test checks the broker with MQTT clients other people wrote,
// because a client of our own would share our reading of the standard:
// mosquitto_pub and mosquitto_sub, Paho Python, Paho C, MQTT.js in Node.js and in
// Chromium, paho.golang and paho.mqtt.golang.
//
// One suite (suite_test.go) runs on all of them, over each protocol version and
// transport they have. A client is a session (session_test.go): connect, subscribe,
// publish, receive, leave, drop. Those that are no Go libraries are small programs
// (testdata/driver.*, mqttjs/node.mjs), or a page (mqttjs/page.html), that take
// commands as lines and answer with lines of what happens:
//
//	connected <0|1|-1>          the CONNACK came; 1: the session was present, -1: not told
//	subscribe <filter> <qos>    -> subscribed <granted>
//	publish <topic> <qos> <payload> -> published, once acknowledged to the end
//	                            -> message <topic> <qos> <payload>, whenever one comes
//	disconnect                  -> disconnected
//
// with tabs between the words. How a program is to connect is in environment
// variables (openProgram in driver_test.go).
package clients_test
