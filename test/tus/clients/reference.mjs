// Runs @tus/server over a directory, for comparison: node reference.mjs DIR. Prints its address.
import { FileStore } from '@tus/file-store'
import { Server } from '@tus/server'

const week = 7 * 24 * 3600 * 1000
const server = new Server({
  path: '/tus',
  datastore: new FileStore({ directory: process.argv[2], expirationPeriodInMilliseconds: week }),
  maxSize: 17592186044416,
})
const listener = server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${listener.address().port}`))
process.stdin.resume().on('end', () => process.exit(0)) // ends with whoever has started it
