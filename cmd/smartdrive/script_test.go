package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"example.org/smartdrive/client/clienttest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"smartdrive": main})
}

// TestScripts runs testdata/script/*.txtar, each against a server of its own.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			s := clienttest.New(t)
			env.Setenv("SERVER", s.URL())
			env.Setenv("TOKEN", clienttest.Token)
			env.Setenv("PASSWORD", clienttest.Password)
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
			env.Values["server"] = s
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exit":     exitCmd,
			"bigfile":  bigfileCmd,
			"mode":     modeCmd,
			"setmtime": setmtimeCmd,
		},
		RequireExplicitExec: true,
	})
}

// exitCmd runs smartdrive and wants an exit code: exit 4 get /x .
func exitCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exit CODE ARG...")
	}
	got := 0
	if err := ts.Exec("smartdrive", args[1:]...); err != nil {
		got = -1
		if e, ok := err.(interface{ ExitCode() int }); ok {
			got = e.ExitCode()
		}
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// bigfileCmd writes a file of many MiB: bigfile NAME MIB.
func bigfileCmd(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	b := make([]byte, n<<20)
	for i := range b {
		b[i] = byte(i * i >> 7)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o666))
}

// modeCmd checks the permissions of a file: mode NAME 600.
func modeCmd(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := strconv.FormatInt(int64(info.Mode().Perm()), 8); got != args[1] {
		ts.Fatalf("%s has mode %s, want %s", args[0], got, args[1])
	}
}

// setmtimeCmd sets a file's time to a fixed moment long ago.
func setmtimeCmd(ts *testscript.TestScript, _ bool, args []string) {
	at := time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)
	ts.Check(os.Chtimes(ts.MkAbs(args[0]), at, at))
}
