//go:build race

package thumb_test

// raceDetector reports that the race detector is on. It reserves more memory than a child may use,
// so that no child starts.
const raceDetector = true
