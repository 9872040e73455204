// Command typecheck type-checks all packages of the module, tests included, for other platforms,
// and prints the errors. It does not compile: platforms differ in the selected files and their
// types, which it checks in seconds, while building for three platforms takes minutes.
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
			// Dependencies are checked without their function bodies.
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
