package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parseFile parses a YAML file of settings: one mapping from names to scalars, or to lists of
// scalars for list settings. Unknown and repeated keys are errors. Values stay as they are written,
// so that they go through the same checks as flags.
func parseFile(text []byte) (map[string]string, error) {
	var doc yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil // empty, or comments only
	case err != nil:
		return nil, err
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one document in the file")
	}
	top := doc.Content[0]
	if top.Kind == yaml.ScalarNode && top.Tag == "!!null" {
		return nil, nil
	}
	if top.Kind != yaml.MappingNode {
		return nil, errors.New("expected is a mapping, one \"name: value\" a line")
	}
	values := make(map[string]string)
	var errs []error
	for i := 0; i+1 < len(top.Content); i += 2 {
		errs = append(errs, addKey(values, top.Content[i], top.Content[i+1]))
	}
	return values, errors.Join(errs...)
}

// addKey adds the value of one key of the file to values, by the name of the setting. It fails,
// with the line number, if the key is unknown or occurs twice, or if the value has the wrong form.
func addKey(values map[string]string, key, value *yaml.Node) error {
	s := find(key.Value)
	if s == nil || s.noKey || key.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: %w", key.Line, unknown("key", "", key.Value))
	}
	if _, ok := values[s.name]; ok {
		return fmt.Errorf("line %d: %s stands there twice", key.Line, s.name)
	}
	v, err := scalars(value, s.list)
	if err != nil {
		return fmt.Errorf("line %d: %s: %w", value.Line, s.name, err)
	}
	values[s.name] = v
	return nil
}

// scalars returns the text of a single value; of a list, if list allows one, its values joined by
// commas; null is "". It fails for anything else and for a list element that contains a comma.
func scalars(n *yaml.Node, list bool) (string, error) {
	if n.Kind == yaml.ScalarNode {
		if n.Tag == "!!null" {
			return "", nil
		}
		return n.Value, nil
	}
	if n.Kind != yaml.SequenceNode || !list {
		return "", errors.New("expected is a single value")
	}
	all := make([]string, len(n.Content))
	for i, e := range n.Content {
		if e.Kind != yaml.ScalarNode || strings.Contains(e.Value, ",") {
			return "", errors.New("expected is a list of single values")
		}
		all[i] = e.Value
	}
	return strings.Join(all, ","), nil
}
