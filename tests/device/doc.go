// Package device is MQTT clients that keep their half of the session state as the
// standard asks, lose their connections on purpose or by what is done to the
// broker, come back, and remember what they were told: for tests that hold what
// subscribers received against what publishers were promised.
//
// A Publisher sends the numbers from 1 on, in order, each until it is
// acknowledged to the end; a value that is refused is sent again once nothing
// else is in flight, so that its order stays. A Subscriber takes values and notes
// them in the order they came. Check compares the two.
//
// A device that does not roam takes every end of a connection that it did not
// bring about for a failure. One that roams goes on: it connects again, where
// Address says by then, through refused dials and CONNECTs refused for the
// server's sake, as a device in the field does.
package device
