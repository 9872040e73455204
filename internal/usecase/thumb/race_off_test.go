//go:build !race

package thumb_test

const raceDetector = false
