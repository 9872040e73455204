// Uploads a file with tus-js-client, as an application would:
//
//   node upload.mjs MODE ENDPOINT TOKEN FILE NAME
//
// MODE is one of: plain, resume (cut in the middle, then taken up by another instance of the client), patient (goes on for as long as
// the server is away, and sends its last bytes when standard input has ended), parallel, defer, data (the first bytes with the
// creation), terminate. Prints what a person would see, as JSON.
import { readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as tus from 'tus-js-client'

const [mode, endpoint, token, path, name] = process.argv.slice(2)
const requests = []
const storage = new tus.FileUrlStorage(join(tmpdir(), `urls-${process.pid}.json`))

// lastOnesLater holds back the 25th PATCH and those after it: who looks for the middle of an upload finds it, however slow they are.
let patches = 0
const inputEnds = mode === 'patient' ? new Promise((resolve) => process.stdin.resume().once('end', resolve)) : undefined
async function lastOnesLater(req) {
  if (req.getMethod() === 'PATCH' && ++patches >= 25) await inputEnds
}

const base = {
  endpoint,
  metadata: { filename: name, filetype: 'application/octet-stream' },
  headers: { Authorization: `Bearer ${token}` },
  retryDelays: [0, 200, 500, 1000],
  urlStorage: storage,
  fingerprint: async () => `fingerprint-${name}`,
  onAfterResponse: (req, res) => requests.push(`${req.getMethod()} ${res.getStatus()}`),
}
const more = {
  plain: { chunkSize: 3_000_000 },
  resume: { chunkSize: 4_000_000 },
  patient: { retryDelays: Array(2400).fill(250), chunkSize: 2_000_000, onBeforeRequest: lastOnesLater },
  parallel: { parallelUploads: 3 },
  defer: { uploadLengthDeferred: true, chunkSize: 3_000_000 },
  data: { uploadDataDuringCreation: true },
  terminate: { chunkSize: 4_000_000 },
}[mode]

// run uploads until the end, or until stop says so; progress is in bytes.
function run(options, stop = () => false) {
  return new Promise((resolve, reject) => {
    // Not a stream: 4.3.1 sends the last chunk of one of unknown length with a wrong Content-Length, to any server.
    const upload = new tus.Upload(readFileSync(path), {
      ...base,
      ...more,
      ...options,
      onError: reject,
      onSuccess: () => resolve({ upload, stopped: false }),
      onProgress: (sent, total) => {
        if (stop(sent, total)) upload.abort(mode === 'terminate').then(() => resolve({ upload, stopped: true }), reject)
      },
    })
    upload.findPreviousUploads().then((previous) => {
      if (previous.length > 0) upload.resumeFromPreviousUpload(previous[0])
      upload.start()
    }, reject)
  })
}

try {
  const half = (sent, total) => sent > total / 2
  const cut = mode === 'resume' || mode === 'terminate'
  let done = await run({}, cut ? half : undefined)
  const stopped = done.stopped
  if (mode === 'resume') done = await run({})
  console.log(JSON.stringify({ url: done.upload.url, stopped, requests }))
  process.exit(0)
} catch (err) {
  console.log(JSON.stringify({ error: String(err), requests }))
  process.exit(1)
}
