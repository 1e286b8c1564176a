// An MQTT.js client in an outage: it connects again by itself, and says what it sent and
// received. outage.mjs sub|pub url user secret client-id topic
import mqtt from 'mqtt'

const [mode, url, username, password, clientId, topic] = process.argv.slice(2)
const say = (...words) => process.stdout.write(words.join(' ') + '\n')
const client = mqtt.connect(url, {
  protocolVersion: 5, clientId, username, password, clean: false, keepalive: 5,
  reconnectPeriod: 1000, properties: { sessionExpiryInterval: 600 },
})
client.on('connect', (ack) => {
  say('connected', ack.reasonCode)
  if (mode === 'sub' && !ack.sessionPresent) client.subscribe(topic, { qos: 1 }, (e) => say(e ? 'failed ' + e.message : 'subscribed'))
})
client.on('error', (e) => say('error', e.message))
client.on('message', (_, payload) => say('message', payload.toString()))
if (mode === 'pub') {
  let number = 1000000 // its values are not another publisher's
  setInterval(() => {
    const n = ++number
    client.publish(topic, String(n), { qos: 1 }, (e) => say(e ? 'failed' : 'acked', n))
  }, 50)
}
