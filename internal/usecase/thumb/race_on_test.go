//go:build race

package thumb_test

// raceDetector: it reserves far more memory than a child may have, so that none starts.
const raceDetector = true
