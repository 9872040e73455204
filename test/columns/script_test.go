package columns

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"example.org/smartdrive/test/history"
)

// op is an operation of a script. Its choices depend only on its seed and the actor's state, so a
// script remains valid without some of its operations.
type op struct {
	name string
	seed uint64
}

func (o op) String() string { return fmt.Sprintf("%s %d", o.name, o.seed) }

// deed does an operation for a person.
type deed struct {
	name   string
	weight int
	do     func(a *actor, p *person, r *rand.Rand)
}

// deeds are all that scripts are made of.
func deeds() []deed {
	return append(append(append(fileDeeds(), uploadDeeds()...), peopleDeeds()...), faultDeeds()...)
}

// newScript makes n operations out of a seed.
func newScript(seed uint64, n int) []op {
	r := rand.New(rand.NewPCG(seed, 0))
	var drawn []string
	for _, d := range deeds() {
		for range d.weight {
			drawn = append(drawn, d.name)
		}
	}
	script := make([]op, n)
	for i := range script {
		script[i] = op{drawn[r.IntN(len(drawn))], r.Uint64()}
	}
	return script
}

// play plays a script with its own users, and then requests everything they have.
func (a *actor) play(script []op) {
	a.said = append(a.said, "")
	a.enter("ann", 90*mib)
	a.enter("Bob", 20*mib)
	by := map[string]deed{}
	for _, d := range deeds() {
		by[d.name] = d
	}
	for _, o := range script {
		if a.broken != nil {
			return
		}
		a.said = append(a.said, "")
		r := rand.New(rand.NewPCG(o.seed, 0))
		by[o.name].do(a, pick(r, a.people), r)
	}
	a.said = append(a.said, "")
	for _, p := range a.people {
		a.survey(p)
	}
}

// enter makes a user who logs in.
func (a *actor) enter(name string, total int64) {
	name += "-" + a.names.salt
	p := &person{name: name, password: password}
	var made struct{ ID string }
	a.as(a.admin, request{"POST", "/admin/users", map[string]any{"name": name, "password": password, "total": total}, nil}).json(&made)
	p.id = made.ID
	a.login(p)
	a.people = append(a.people, p)
	a.do(p, request{"GET", "/nodes/root", nil, nil})
}

func (a *actor) login(p *person) {
	var granted struct{ ID, Token string }
	a.as("", request{"POST", "/sessions", map[string]any{"name": p.name, "password": p.password}, nil}).json(&granted)
	if granted.Token != "" {
		p.token = granted.Token
		p.logins = append(p.logins, [2]string{granted.ID, granted.Token})
	}
}

func pick[T any](r *rand.Rand, list []T) T {
	var none T
	if len(list) == 0 {
		return none
	}
	return list[r.IntN(len(list))]
}

// one picks from the listed values. A value may be repeated to make it more likely.
func one[T any](r *rand.Rand, list ...T) T { return pick(r, list) }

// chance is true once in n.
func chance(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

const mib = 1 << 20

// sizes of contents in bytes: nothing, little, around the least that is linked instantly, around a
// part, and several parts.
var sizes = []int64{0, 1, 777, 65_537, mib, mib + 13, 8 * mib, 8*mib + 5, 17*mib + 1}

// content is one of the few that a script uses, so that the same comes up again; at most the size.
func (a *actor) content(r *rand.Rand, most int64) history.Content {
	for {
		i := r.IntN(len(sizes))
		if sizes[i] <= most {
			return history.Content{Seed: a.seed*100 + uint64(i*2+r.IntN(2)), Size: sizes[i]}
		}
	}
}

// someNames come up again and again, and differ in ways in which databases compare texts: case,
// accents, blanks at the end, wildcards, the normal forms of Unicode, characters outside of its
// first plane.
var someNames = []string{
	"a", "b", "A", "c.txt", "\u00e9", "e\u0301", "e", "a ", " a", "ß", "ss", "日本", "😀", "😁", "x%", "x_y", "xzy", "İ", "i", "ı", "I", "-1", "01", "1",
	"back\\slash", "quo\"te'", strings.Repeat("n", 255), strings.Repeat("é", 127),
}

func someName(r *rand.Rand) string {
	if chance(r, 2) {
		return someNames[r.IntN(5)]
	}
	return pick(r, someNames)
}

func somePath(r *rand.Rand) string {
	path := ""
	for range 1 + r.IntN(3) {
		path += "/" + someName(r)
	}
	return path
}

func conflict(r *rand.Rand, more ...string) string {
	return pick(r, append([]string{"", "fail", "rename"}, more...))
}

// set adds a member that is not empty.
func set(body map[string]any, name string, value any) {
	if value != "" && value != nil && value != false {
		body[name] = value
	}
}

// someNode returns a random node of a person, existing or deleted, of the type if there is one;
// sometimes an unknown node or another person's.
func (a *actor) someNode(p *person, r *rand.Rand, typ string) *node {
	if chance(r, 25) {
		return &node{id: one(r, "0198c0de-0000-7000-8000-000000000000", "nothing", "ROOT", "00000000-0000-0000-0000-000000000000"), rev: 1}
	}
	if chance(r, 25) {
		p = pick(r, a.people)
	}
	for range 20 {
		if n := pick(r, p.nodes); typ == "" || n.typ == typ {
			return n
		}
	}
	return p.nodes[0]
}

// someFolder returns the id of a random folder in the form that clients use.
func (a *actor) someFolder(p *person, r *rand.Rand) string {
	if chance(r, 3) {
		return "root"
	}
	return a.someNode(p, r, "folder").id
}
