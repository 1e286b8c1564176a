// Drives MQTT.js in a page of a running Chromium (its DevTools address is in
// BROWSER_URL, the page's in PAGE_URL) by the commands that doc_test.go describes.
// The page is in a context of its own, which goes when this program does.
import { createInterface } from 'node:readline'
import { chromium } from 'playwright-core'
import { options, say } from './options.mjs'

const browser = await chromium.connectOverCDP(process.env.BROWSER_URL)
const context = await browser.newContext()
const page = await context.newPage()
page.on('pageerror', (e) => say('error', e.message))
await page.exposeFunction('say', async (...words) => {
  say(...words)
  if (words[0] === 'disconnected') {
    await context.close()
    process.exit(0)
  }
})
await page.goto(process.env.PAGE_URL)
await page.waitForFunction(() => window.openSession !== undefined)
await page.evaluate((o) => window.openSession(o), options)
for await (const line of createInterface({ input: process.stdin })) {
  const [command, ...words] = line.split('\t')
  await page.evaluate(([command, words]) => window.obey(command, words), [command, words])
}
