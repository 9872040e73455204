package client

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/text/unicode/norm"
)

// errSameName is an entry of a local folder whose name another one has on the server.
var errSameName = errors.New("its name is the same on the server as that of")

// names gives the entries of one local folder the names that the server keeps: normalised to NFC
// (Unicode TR15). A local folder may hold "é" as one character and as an "e" with an accent behind
// it; on the server both are one name, and one file would replace the other.
type names struct {
	shared map[string]string // names that more than one entry may get, and the entry that has it; empty: none yet
}

func namesOf(entries []os.DirEntry) names {
	n := names{map[string]string{}}
	for _, e := range entries {
		if kept := norm.NFC.String(e.Name()); kept != e.Name() {
			n.shared[kept] = ""
		}
	}
	return n
}

// take returns the name that an entry gets. The first entry that asks for a name has it.
func (n names) take(local string) (string, error) {
	kept := norm.NFC.String(local)
	first, shared := n.shared[kept]
	if shared && first != "" {
		return kept, fmt.Errorf("%w %s, which is written %+q here: rename one of the two", errSameName, first, first)
	}
	if shared {
		n.shared[kept] = local
	}
	return kept, nil
}
