package client

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/text/unicode/norm"
)

// errSameName reports a local file whose remote name is already used by another file of the same
// directory.
var errSameName = errors.New("its name is the same on the server as that of")

// localNames assigns remote names to the entries of one local directory. The server normalizes
// names to NFC (Unicode TR15), so two local names may map to one remote name; without this check
// one file would replace the other.
type localNames struct {
	owners map[string]string // ambiguous remote name -> local name it is assigned to; "": not yet assigned
}

// namesOf returns a localNames that reserves the normalized (NFC) spelling of existing entries
// whose names differ from it.
func namesOf(entries []os.DirEntry) localNames {
	n := localNames{map[string]string{}}
	for _, e := range entries {
		if kept := norm.NFC.String(e.Name()); kept != e.Name() {
			n.owners[kept] = ""
		}
	}
	return n
}

// assign returns the remote name of a local entry. The first entry gets a shared name; later ones
// fail with errSameName.
func (n localNames) assign(local string) (string, error) {
	kept := norm.NFC.String(local)
	first, shared := n.owners[kept]
	if shared && first != "" {
		return kept, fmt.Errorf("%w %s, which is written %+q here: rename one of the two", errSameName, first, first)
	}
	if shared {
		n.owners[kept] = local
	}
	return kept, nil
}
