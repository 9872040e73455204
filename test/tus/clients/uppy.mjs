// Runs Uppy in headless Chromium: node uppy.mjs CHROMIUM SCRIPT ARGUMENTS. The script sets the global upload, which is called with the
// arguments (JSON); what it returns is printed. The page has the token of the arguments in its address.
import { createServer } from 'node:http'
import { build } from 'esbuild'
import { chromium } from 'playwright-core'

const [executablePath, script, json] = process.argv.slice(2)
const args = JSON.parse(json)
const { outputFiles } = await build({
  entryPoints: [script], bundle: true, format: 'iife', write: false, logLevel: 'error',
  nodePaths: [new URL('../node_modules', import.meta.url).pathname],
})
const page = `<!doctype html><meta charset="utf-8"><title>Uppy</title><script>${outputFiles[0].text.replaceAll('</script', '<\\/script')}</script>`
const site = createServer((req, res) => res.setHeader('Content-Type', 'text/html; charset=utf-8').end(page))
await new Promise((ready) => site.listen(0, '127.0.0.1', ready))

const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] })
try {
  const tab = await browser.newPage()
  tab.setDefaultTimeout(0) // the test has one of its own
  tab.on('console', (m) => console.error(m.text()))
  await tab.goto(`http://127.0.0.1:${site.address().port}/?token=${args.token}`)
  console.log(JSON.stringify(await tab.evaluate((a) => globalThis.upload(a), args)))
} finally {
  await browser.close()
  site.close()
}
