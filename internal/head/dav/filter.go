package dav

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/files"
)

// Filter is the parsed body of a REPORT, which lists the nodes that match rules. Rules maps each
// property to its required value. The head that calls Report finds the nodes; this package only
// parses the rules.
type Filter struct {
	want  wantedProps
	Rules map[Name]string // required values by property
}

// ReadFilter parses the body of a REPORT, whose root element is root. Its child DAV:prop names the
// properties to return; without it the properties of allprop. Each child of an element called rules
// is a rule: a property and its required value. It fails with drive.BadRequest for another or no
// root, and with the errors of readBody.
func ReadFilter(r *http.Request, root, rules Name) (Filter, error) {
	f := Filter{Rules: map[Name]string{}}
	body, found, err := readBody(r)
	if err != nil {
		return f, err
	}
	if !found || body.Name != root {
		return f, drive.BadField("body", drive.Malformed, "expected", root.Local)
	}
	f.want.names = allpropNames()
	if prop, some := body.child("prop"); some {
		if f.want.names, err = prop.names(); err != nil {
			return f, err
		}
	}
	for _, c := range body.Children {
		if c.Name != rules {
			continue
		}
		for _, rule := range c.Children {
			f.Rules[rule.Name] = strings.TrimSpace(rule.Text)
		}
	}
	return f, nil
}

// Report answers a REPORT with properties of those nodes that lie at or below the URL of r. The
// view must have the layout Merged and name the caller in Who. If an error occurs before anything
// is sent, it is returned and the caller must answer. Later the response is aborted by a panic with
// http.ErrAbortHandler.
func (h *Head) Report(ctx context.Context, w http.ResponseWriter, r *http.Request, v View, f Filter, nodes []files.NodeView) error {
	c := &call{Head: h, view: v, w: w, r: r, who: v.Who}
	var err error
	if c.at, err = c.parse(r.URL); err != nil {
		return err
	}
	top, err := c.find(ctx, c.at)
	if err != nil {
		return err
	}
	var entries []Entry
	names, err := c.guestNames(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		at, err := drive.ParseAddress(n.Path)
		if err != nil {
			return err
		}
		if segments, shown := c.segmentsOf(at, names); shown && startsWith(segments, c.at.segments) {
			entries = append(entries, c.entry(n, at, segments))
		}
	}
	out := newMultistatus(c)
	for page := range slices.Chunk(entries, 500) {
		if err := c.entryWriter(f.want, false, top).writePage(ctx, out, page); err != nil {
			return c.abort(out, err)
		}
	}
	out.end()
	return nil
}

// guestNames returns the names under which the caller sees shared nodes, by node id as text. It
// fails with the error of Mounted.
func (c *call) guestNames(ctx context.Context) (map[string]drive.Name, error) {
	all, err := c.mounted(ctx)
	if err != nil {
		return nil, err
	}
	names := make(map[string]drive.Name, len(all))
	for _, s := range all {
		names[s.Node.String()] = s.As
	}
	return names, nil
}

// startsWith reports whether path begins with all elements of prefix; an empty prefix always
// matches.
func startsWith(path, prefix []string) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}

// segmentsOf returns the path, as names, that an address has in a view of the layout Merged. shares
// is the result of guestNames. shown is false if the view does not contain the address, such as a
// share that the caller has hidden.
func (c *call) segmentsOf(at drive.Address, shares map[string]drive.Name) (segments []string, shown bool) {
	path := at.Path
	switch name, mounted := shares[at.Place]; {
	case at.Place == "" && len(path) > 0:
		segments, path = []string{string(c.view.Layout.displayName(path[0]))}, path[1:]
	case at.Place == "":
	case mounted:
		segments = []string{string(sectionNames[Merged][shared]), string(name)}
	default:
		if _, err := drive.ParseID[drive.NodeID](at.Place); err == nil { // hidden, or below an unshared folder
			return nil, false
		}
		segments = []string{string(sectionNames[Merged][spaces]), at.Place}
	}
	for _, name := range path {
		segments = append(segments, string(name))
	}
	return segments, true
}
