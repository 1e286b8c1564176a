"""Drives Paho Python by the commands that doc_test.go describes."""

import os
import sys
import threading

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes

env = os.environ
lock = threading.Lock()


def say(*words):
    with lock:
        print(*words, sep="\t", flush=True)


scheme, address = env["MQTT_URL"].split("://")
host, port = address.rsplit(":", 1)
version = {"3": mqtt.MQTTv31, "4": mqtt.MQTTv311, "5": mqtt.MQTTv5}[env["MQTT_VERSION"]]
clean = env["MQTT_CLEAN"] == "1"

arguments = {"client_id": env["MQTT_CLIENT_ID"], "protocol": version,
             "transport": "websockets" if scheme in ("ws", "wss") else "tcp"}
connect_arguments = {}
if version == mqtt.MQTTv5:
    properties = mqtt.Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = 0 if clean else 300
    connect_arguments = {"clean_start": clean, "properties": properties}
else:
    arguments["clean_session"] = clean
client = mqtt.Client(**arguments)
client.username_pw_set(env["MQTT_USER"], env["MQTT_PASSWORD"])
if scheme in ("ws", "wss"):
    client.ws_set_options(path=env["MQTT_PATH"])
if scheme in ("tls", "wss"):
    client.tls_set(ca_certs=env["MQTT_CA"])
if "MQTT_WILL_TOPIC" in env:
    client.will_set(env["MQTT_WILL_TOPIC"], env["MQTT_WILL_PAYLOAD"], int(env["MQTT_WILL_QOS"]))


def on_connect(client, userdata, flags, code, properties=None):
    if code == 0:
        say("connected", flags["session present"])
    else:
        say("error", "CONNACK", code)


def on_subscribe(client, userdata, mid, granted, properties=None):
    say("subscribed", *[g if isinstance(g, int) else g.value for g in granted])


def on_message(client, userdata, m):
    say("message", m.topic, m.qos, m.payload.decode())


def on_disconnect(client, userdata, code, properties=None):
    say("disconnected" if code == 0 else "error", str(code))


client.on_connect = on_connect
client.on_subscribe = on_subscribe
client.on_message = on_message
client.on_disconnect = on_disconnect
client.connect(host, int(port), keepalive=60, **connect_arguments)
client.loop_start()

for line in sys.stdin:
    command, *words = line.rstrip("\n").split("\t")
    if command == "subscribe":
        client.subscribe(words[0], int(words[1]))
    elif command == "publish":
        client.publish(words[0], words[2], int(words[1])).wait_for_publish()
        say("published")
    elif command == "disconnect":
        client.disconnect()
        client.loop_stop()
        break
