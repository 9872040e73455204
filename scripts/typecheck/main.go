// Command typecheck reads all packages of the module, tests included, as the compiler of another
// platform would, and prints what does not fit. It compiles nothing: what is different on another
// platform are the files that are chosen and the types in them, and these it finds in seconds,
// where building everything for three platforms takes minutes.
//
//	go run ./scripts/typecheck linux/arm64 darwin/arm64 windows/amd64
package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	failed := false
	for _, platform := range os.Args[1:] {
		system, processor, ok := strings.Cut(platform, "/")
		if !ok {
			fmt.Fprintf(os.Stderr, "typecheck: %q is not a system/processor\n", platform)
			os.Exit(2)
		}
		all, err := packages.Load(&packages.Config{
			// Types of dependencies, but not their uses in function bodies: those are read for our
			// own packages alone.
			Mode:  packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax,
			Env:   append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0"),
			Tests: true,
		}, "./...")
		if err != nil {
			fmt.Fprintln(os.Stderr, "typecheck:", err)
			os.Exit(1)
		}
		faults := packages.PrintErrors(all)
		fmt.Printf("%s: %d packages, %d faults\n", platform, len(all), faults)
		failed = failed || faults > 0 || len(all) == 0
	}
	if failed {
		os.Exit(1)
	}
}
