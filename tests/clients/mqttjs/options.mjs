// How to connect, from the environment that doc_test.go describes.
import { readFileSync } from 'node:fs'

const env = process.env
const web = /^wss?:/.test(env.MQTT_URL)

export const options = {
  url: env.MQTT_URL.replace(/^tcp:/, 'mqtt:').replace(/^tls:/, 'mqtts:') + (web ? env.MQTT_PATH : ''),
  version: Number(env.MQTT_VERSION),
  clientId: env.MQTT_CLIENT_ID,
  user: env.MQTT_USER,
  password: env.MQTT_PASSWORD,
  clean: env.MQTT_CLEAN === '1',
  ca: env.MQTT_CA ? readFileSync(env.MQTT_CA, 'utf8') : undefined,
  will: env.MQTT_WILL_TOPIC
    ? { topic: env.MQTT_WILL_TOPIC, payload: env.MQTT_WILL_PAYLOAD, qos: Number(env.MQTT_WILL_QOS) }
    : undefined,
}

export function say(...words) {
  process.stdout.write(words.join('\t') + '\n')
}
