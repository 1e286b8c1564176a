// Drives MQTT.js in Node.js by the commands that doc_test.go describes.
import { createInterface } from 'node:readline'
import mqtt from 'mqtt'
import { options, say } from './options.mjs'
import { open } from './session.mjs'

const obey = open(mqtt, options, (...words) => {
  say(...words)
  if (words[0] === 'disconnected') process.exit(0)
})
for await (const line of createInterface({ input: process.stdin })) {
  const [command, ...words] = line.split('\t')
  obey(command, words)
}
