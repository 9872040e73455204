package invoice

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDates(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]Date{
		"2026-10-01": 20261001, "20261001": 20261001, "2024-02-29": 20240229, "0001-01-01": 10101, "2026-02-29": 0, "2026-13-01": 0,
		"2026-00-10": 0, "0000-01-01": 0, "2026-1-1": 0, "26-10-01": 0, "2026/10/01": 0, "": 0, "２０２６1001": 0, "2026-10-01Z": 0,
	} {
		got, err := ParseDate(in)
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("%q is %v, error %v", in, got, err)
		}
	}
	if d := NewDate(2026, 3, 9); d.String() != "2026-03-09" || d.Month() != "2026-03" || Date(0).Month() != "" || Date(0).String() != "" {
		t.Errorf("%v, month %s", d, d.Month())
	}
	var d Date
	if text, _ := json.Marshal(NewDate(2026, 3, 9)); json.Unmarshal(text, &d) != nil || d != NewDate(2026, 3, 9) {
		t.Errorf("%v after JSON", d)
	}
}

// everyField calls visit for each member of the model, with a document in which only this member is
// set.
func everyField(t *testing.T, visit func(path string, d *Document)) {
	t.Helper()
	var walk func(path string, typ reflect.Type, at func(*Document) reflect.Value, depth int)
	walk = func(path string, typ reflect.Type, at func(*Document) reflect.Value, depth int) {
		switch {
		case typ == reflect.TypeFor[Decimal]():
			d := new(Document)
			at(d).Set(reflect.ValueOf(NewDecimal(0, 0)))
			visit(path, d)
		case typ.Kind() == reflect.Pointer:
			walk(path, typ.Elem(), func(d *Document) reflect.Value {
				v := at(d)
				v.Set(reflect.New(typ.Elem()))
				return v.Elem()
			}, depth)
		case typ.Kind() == reflect.Slice && depth < 4:
			walk(path+"[]", typ.Elem(), func(d *Document) reflect.Value {
				v := at(d)
				v.Set(reflect.MakeSlice(typ, 1, 1))
				return v.Index(0)
			}, depth+1)
		case typ.Kind() == reflect.Struct:
			for i := range typ.NumField() {
				if typ.Field(i).Tag.Get("json") == "-" {
					continue
				}
				walk(path+"."+typ.Field(i).Name, typ.Field(i).Type, func(d *Document) reflect.Value { return at(d).Field(i) }, depth)
			}
		case typ.Kind() == reflect.String, typ.Kind() == reflect.Bool, typ.Kind() == reflect.Int64, typ.Kind() == reflect.Int32:
			d := new(Document)
			v := at(d)
			switch v.Kind() { //nolint:exhaustive // the kinds above
			case reflect.String:
				v.SetString("x")
			case reflect.Bool:
				v.SetBool(true)
			default:
				v.SetInt(20261001)
			}
			visit(path, d)
		}
	}
	walk("", reflect.TypeFor[Document](), func(d *Document) reflect.Value { return reflect.ValueOf(d).Elem() }, 0)
}

func TestEachMemberCountsInTheHashAndInJSON(t *testing.T) {
	t.Parallel()
	hashes, n := map[[32]byte]string{new(Document).Hash(): "nothing"}, 0
	everyField(t, func(path string, d *Document) {
		n++
		if other, ok := hashes[d.Hash()]; ok {
			t.Errorf("%s hashes as %s does", path, other)
		}
		hashes[d.Hash()] = path
		text, err := json.Marshal(d)
		if err != nil || strings.ToLower(string(text)) != string(text) && !strings.Contains(path, "Repeated") {
			t.Errorf("%s: %s, error %v", path, text, err)
		}
		again := new(Document)
		if err := json.Unmarshal(text, again); err != nil || !cmp.Equal(d, again) {
			t.Errorf("%s: %s is read as %v, error %v", path, text, again, err)
		}
	})
	if n < 200 {
		t.Errorf("%d members only", n)
	}
}

// TestHashIsFrozen checks the text that is hashed. Hashes are stored, so the text must never
// change.
func TestHashIsFrozen(t *testing.T) {
	t.Parallel()
	d := &Document{Number: "R-1", Date: 20261001, Lines: []Line{{ID: "1", Net: NewDecimal(1050, 2)}}, Payee: &Party{}}
	text := string(appendCanonical(nil, reflect.ValueOf(d).Elem()))
	if want := "{date=10:2026-10-01lines=[{id=1:1net=4:10.5}]number=3:R-1payee={}}"; text != want {
		t.Errorf("hashed is %s, want %s", text, want)
	}
}

func TestKeysAreInOneSpelling(t *testing.T) {
	t.Parallel()
	a := Document{Number: " R  1 ", Date: 20261001, Seller: Party{VATID: "de 123.456-789", Name: "A"}}
	b := Document{Number: "R 1", Date: 20261001, Seller: Party{VATID: "DE123456789", Name: "B"}}
	if a.Key() != b.Key() || !a.Key().Complete() {
		t.Errorf("%v and %v", a.Key(), b.Key())
	}
	parties := []Party{
		{VATID: "1"},
		{TaxID: "1"},
		{Legal: Identifier{ID: "1"}},
		{Legal: Identifier{ID: "1", Scheme: "0002"}},
		{IDs: []Identifier{{ID: "1"}}},
		{Endpoint: Identifier{ID: "1"}},
		{Name: "1"},
	}
	var seen []string
	for i := range parties {
		id := parties[i].Identity()
		if slices.Contains(seen, id) || id == "" {
			t.Errorf("%+v is %q, which is another one or nobody", parties[i], id)
		}
		seen = append(seen, id)
	}
	if (&Party{}).Identity() != "" || (&Document{Number: "1", Date: 20261001}).Key().Complete() {
		t.Error("nobody is somebody")
	}
}
