package system_test

import (
	"testing"

	"example.org/smartdrive/test/process"
)

func TestMain(m *testing.M) { process.Main(m) }
