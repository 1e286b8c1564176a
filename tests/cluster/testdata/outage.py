"""A Paho Python client in an outage: it connects again by itself, and says what it sent
and received. outage.py sub|pub host port user secret client-id topic"""
import sys
import threading
import time

import paho.mqtt.client as mqtt

mode, host, port, user, secret, client_id, topic = sys.argv[1:]
client = mqtt.Client(client_id=client_id, clean_session=False, protocol=mqtt.MQTTv311)
client.username_pw_set(user, secret)
client.reconnect_delay_set(1, 1)
connected = threading.Event()


def say(*words):
    print(*words, flush=True)


def on_connect(client, userdata, flags, code):
    say("connected", code)
    if code == 0 and mode == "sub" and not flags["session present"]:
        client.subscribe(topic, qos=1)
    connected.set()


client.on_connect = on_connect
client.on_subscribe = lambda *_: say("subscribed")
client.on_message = lambda _client, _userdata, message: say("message", message.payload.decode())
client.on_publish = lambda _client, _userdata, number: say("acked", number)
client.connect(host, int(port), keepalive=5)
client.loop_start()
connected.wait()
if mode == "sub":
    threading.Event().wait()
number = 0
while True:
    number += 1
    # Paho numbers its packets from 1 on, so the id is the value for the first 65,535.
    client.publish(topic, str(number), qos=1)
    time.sleep(0.05)
