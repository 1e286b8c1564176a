// One MQTT.js session that obeys commands and says what happens, in Node.js and
// in a page alike. mqtt is the library, say takes the words of an event.
export function open(mqtt, o, say) {
  const options = {
    protocolVersion: o.version,
    protocolId: o.version === 3 ? 'MQIsdp' : 'MQTT',
    clientId: o.clientId,
    username: o.user,
    password: o.password,
    clean: o.clean,
    reconnectPeriod: 0,
    resubscribe: false,
    ca: o.ca,
  }
  if (o.version === 5) options.properties = { sessionExpiryInterval: o.clean ? 0 : 300 }
  if (o.will) options.will = { topic: o.will.topic, payload: o.will.payload, qos: o.will.qos, retain: false }
  const client = mqtt.connect(o.url, options)
  client.on('connect', (ack) => say('connected', ack.sessionPresent ? 1 : 0))
  client.on('error', (e) => say('error', e.message))
  client.on('message', (topic, payload, packet) => say('message', topic, packet.qos, payload.toString()))
  return (command, words) => {
    switch (command) {
      case 'subscribe':
        client.subscribe(words[0], { qos: Number(words[1]) }, (e, granted) =>
          e ? say('error', e.message) : say('subscribed', granted[0].qos))
        break
      case 'publish':
        client.publish(words[0], words[2], { qos: Number(words[1]) }, (e) =>
          e ? say('error', e.message) : say('published'))
        break
      case 'disconnect':
        client.end(false, {}, () => say('disconnected'))
        break
    }
  }
}
