// Command mqttload is an open-loop load generator for MQTT brokers.
//
//	mqttload acks --address 127.0.0.1:1883 --publish-topic 'load/{i}'      publish as fast as windows allow, nobody subscribes
//	mqttload rate --rate 2000 ...      publish by a schedule; latency counts from the intended time
//	mqttload pair|fanout|fanin ...     1 to 1, 1 to many, many to 1
//	mqttload churn|idle|resume ...     connections that come and go, do nothing, come back
//	mqttload storm ...                 connections that are all cut and all come back at once
//	mqttload compare                   our broker beside mosquitto, mochi-mqtt and nats-server, in turns
//	mqttload cluster                   two replicas beside the same, in the same cases
//	mqttload page FILE                 table and picture of a result file
//
// Topics are templates: {i} is a publisher's number. Our broker takes values into
// an inbox and gives them out elsewhere:
//
//	mqttload pair --user press-7 --password ... --pid $(pidof broker) \
//	  --publish-topic 'mHv1.0/acme/_ingress/press-7/load/{i}' --subscribe-topic 'mHv1.0/acme/load/{i}'
//
// The folders: wire is the epoll loop and its connections, scenario what can be
// done with them, peer the brokers that are compared, figures what broker/README.md
// shows. cases.go says what is measured and why a peer may be ahead; a comparison
// writes a result file with every turn, the machine and the versions (run.go), and
// table and picture are made of that alone (table.go, picture.go, page.go).
//
// The figures are ratios of brokers measured in one run, in turns, because absolute
// rates move by a factor of two to four with whatever else the machine does; beside
// them stands what one fdatasync of the same disk takes in the same run.
package main
