// Drill breaks an installation of the broker on purpose while devices publish, and says
// whether every promise was kept.
//
//	drill all --cluster                                  # the local cluster of `make cluster`
//	drill kill stop upgrade --kubeconfig ~/.kube/config --release maestrohub --namespace maestrohub \
//	      --client admin --secret-file admin.secret
//	drill all --mqtt broker:8883 --tls --http https://broker:8080 --client admin --secret-file admin.secret
//
// The life of a drill:
//
//  1. It signs in at the REST API and makes an API client of its own for its devices.
//  2. Devices (package tests/device/fleet: MQTT 5 and 3.1.1, QoS 1 and 2) publish numbered
//     values with timestamps; saved sessions and live ones subscribe to all of them; all
//     declare wills, and one device is there to leave.
//  3. Each fault is done to the installation, by itself (a local cluster, Kubernetes) or by
//     the person at the keyboard, and healed; the drill waits until everything flows again.
//  4. It reads the history back, holds it and what every session received against what
//     every device was told, and judges each promise (judge.go): kept or broken, with the
//     evidence.
//  5. It writes drill-report.html, which needs nothing else to be looked at, and
//     drill-report.json, and takes back what it made: sessions, the API client, faults.
//
// Interrupted (Ctrl-C, SIGTERM, a closed terminal, the end of a person's input), it heals
// what it broke, judges what there is and cleans up all the same; interrupted again, it heals
// and cleans up without a verdict; a third time it ends at once and says what it leaves.
// Exit status: 0 every promise kept, 1 the drill could not be done, 3 a promise was broken,
// 130 interrupted.
package main
