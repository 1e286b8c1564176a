// Package page_test shows the MQTT Broker page in a real browser (Debian's Chromium,
// headless) against a real cluster of three replicas while devices publish, the mesh is
// cut, one replica is killed, missed and comes back, and another is cut from NATS while
// somebody signs in. Where PAGE_SCREENSHOTS names a folder,
// pictures of each state are left there to look at.
package page_test
