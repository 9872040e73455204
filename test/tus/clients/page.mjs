// The page of clients/uppy.mjs: Uppy with its tus plugin, as an application sets it up.
import Uppy from '@uppy/core'
import Tus from '@uppy/tus'

// upload adds files and uploads them. Each is {name, size, seed, relativePath}. cut: the connection is cut in the middle, once.
globalThis.upload = async ({ endpoint, token, files, parallel, cut }) => {
  const uppy = new Uppy({ autoProceed: false }).use(Tus, {
    endpoint,
    headers: { Authorization: `Bearer ${token}` },
    chunkSize: 5_000_000,
    retryDelays: [0, 200, 500, 1000],
    parallelUploads: parallel,
  })
  for (const f of files) {
    uppy.addFile({
      name: f.name,
      type: 'application/octet-stream',
      data: new File([content(f.size, f.seed)], f.name),
      meta: f.relativePath ? { relativePath: f.relativePath } : {},
    })
  }
  if (cut) {
    uppy.on('upload-progress', (file, progress) => {
      if (cut && progress.bytesUploaded > progress.bytesTotal / 2) {
        cut = false
        uppy.pauseAll()
        setTimeout(() => uppy.resumeAll(), 300)
      }
    })
  }
  const result = await uppy.upload()
  return {
    successful: result.successful.map((f) => f.uploadURL),
    failed: result.failed.map((f) => f.error),
    cut,
  }
}

// content is what the test in Go expects: byte i of seed s.
function content(size, seed) {
  const bytes = new Uint8Array(size)
  for (let i = 0, x = seed; i < size; i++) {
    x = (Math.imul(x, 1103515245) + 12345) >>> 0
    bytes[i] = x >>> 24
  }
  return bytes
}
