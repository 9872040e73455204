package system_test

import (
	"testing"

	"smartdrive/test/process"
)

func TestMain(m *testing.M) { process.Main(m) }
