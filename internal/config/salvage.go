package config

import (
	"bytes"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// block is one top-level key of a file with all lines up to the next one.
type block struct {
	name string
	text []byte
}

var (
	// oddBreak is a line break to YAML 1.1 (4.2), though not to an editor.
	oddBreak = regexp.MustCompile(`\r(?:[^\n]|$)|[\x{85}\x{2028}\x{2029}]`)
	topKey   = regexp.MustCompile(`^([a-z_]+):(?:\s|$)`)
	// inner is a line that goes on with what stands above it: empty, indented, a comment, an item of a list, the end of a bracket.
	inner = regexp.MustCompile(`^(?:[ \t\r\n#\]}]|-[ \t\r\n]|$)`)
)

// salvage reads the sections of a file that is no YAML one by one, each as it would be read if it stood alone. A section that cannot
// be read so is empty. It is nil when one that is needed cannot be read, or anything makes it doubtful what was meant.
//
// That a line above, such as a quotation mark that nothing closes, would swallow a section does not matter: what begins in the first
// column with a key of the file's top level was written as that. Block scalars and plain ones cannot reach there (YAML 1.2, 8.1.1.1).
func salvage(src []byte) *yaml.Node {
	blocks := cut(src)
	if blocks == nil {
		return nil
	}
	root := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for _, b := range blocks {
		key, value := b.read()
		switch {
		case value != nil:
		case b.holdsNeeded():
			return nil
		default:
			key = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: b.name}
			value = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
		}
		root.Content = append(root.Content, key, value)
	}
	return root
}

// cut cuts a file before each top-level key; nil when it has anything else there, or a key that is unknown or there twice.
func cut(src []byte) []block {
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	if invalidUTF8(src) >= 0 || oddBreak.Match(src) {
		return nil
	}
	var blocks []block
	known, marks := keys(reflect.TypeFor[Config]()), 0
	for line := range bytes.Lines(src) {
		m := topKey.FindSubmatch(line)
		switch {
		case m != nil:
			name := string(m[1])
			if !slices.Contains(known, name) || slices.ContainsFunc(blocks, func(b block) bool { return b.name == name }) {
				return nil
			}
			blocks = append(blocks, block{name: name})
		case len(blocks) == 0 && marks == 0 && string(bytes.TrimRight(line, " \t\r\n")) == "---":
			marks++
			continue
		case !inner.Match(line), len(blocks) == 0 && !blank(line):
			return nil
		case len(blocks) == 0:
			continue
		}
		last := &blocks[len(blocks)-1]
		last.text = append(last.text, line...)
	}
	return blocks
}

// blank is a line that says nothing.
func blank(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) == 0 || line[0] == '#'
}

// read is the block's key and value, nil when it cannot be read alone, or not as that.
func (b block) read() (key, value *yaml.Node) {
	root, err := parse("", b.text)
	if err != nil || root.Kind != yaml.MappingNode || len(root.Content) != 2 {
		return nil, nil
	}
	return root.Content[0], root.Content[1]
}

// holdsNeeded reports whether a block that cannot be read is, or seems to hold, something that is needed: a section that lost its
// line break or the first column, or keys that do not belong to this one, of a section that lost its name.
func (b block) holdsNeeded() bool {
	lost := slices.DeleteFunc(neededNames(), func(name string) bool {
		return slices.ContainsFunc(leaves(Default()), func(l leaf) bool { return l.name == b.name+"."+name })
	})
	pattern := regexp.MustCompile(`(?:` + strings.Join(lost, "|") + `)["']?[ \t]*:(?:\s|$)`)
	for line := range bytes.Lines(b.text) {
		if !blank(line) && pattern.Match(line) {
			return true
		}
	}
	return false
}
