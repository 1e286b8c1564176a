// Package page_test shows the MQTT Broker page in a real browser (Debian's Chromium,
// headless) against a real cluster of three replicas while devices publish, one replica
// is killed and comes back, and its link is cut. Where PAGE_SCREENSHOTS names a folder,
// pictures of each state are left there to look at.
package page_test
