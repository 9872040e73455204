package invoice_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/intake/invoice/invoicetest"
)

var update = flag.Bool("update", false, "write docs/invoice-model.md")

const docs = "../../../docs/invoice-model.md"

const docsHead = `# The model of an invoice

Written by ` + "`make docs`" + ` from internal/intake/invoice.

> 中文摘要：SmartDrive 把所有格式的发票转换为同一种模型。本页说明该模型的 JSON：每行一个文档（NDJSON），可直接作为接收格式使用。金额写成字符串形式的十进制数，
> 日期写成 2026-10-01；没有的内容不写。字段名必须完全一致，不能重复，未知字段会被拒绝。

One document in a line is a format of its own (NDJSON), and what the API shows of a document. An amount is a decimal number as a text; a bare number is
taken by its digits, without an exponent. A date is written 2026-10-01. What is not said is left out. Names are written exactly so and stand once; an
unknown one is refused. Text is UTF-8. BT and BG are the terms of EN 16931-1. Members are only ever added.

`

// TestDocsOfTheModel compares docs/invoice-model.md with the types and their comments.
func TestDocsOfTheModel(t *testing.T) {
	t.Parallel()
	want := docsHead + members(t) + "## An example\n\nAs one line in a file of NDJSON:\n\n```json\n" + example(t) + "\n```\n"
	if *update {
		if err := os.WriteFile(docs, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/invoice-model.md differs; run make docs\n%s", diff)
	}
}

// example returns an invoice as indented JSON.
func example(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(invoicetest.NDJSON(invoicetest.Full(1))), "", "  "); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// members lists the members of each struct of the model, with the comments of the fields.
func members(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, name := range []string{"model.go", "party.go", "line.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.TYPE {
				continue
			}
			spec := group.Specs[0].(*ast.TypeSpec)
			if fields, ok := spec.Type.(*ast.StructType); ok {
				fmt.Fprintf(&b, "## %s\n\n%s\n", spec.Name.Name, group.Doc.Text())
				for _, field := range fields.Fields.List {
					writeMember(t, &b, field)
				}
				b.WriteString("\n")
			}
		}
	}
	return b.String()
}

// writeMember writes the line of a member.
func writeMember(t *testing.T, b *strings.Builder, field *ast.Field) {
	t.Helper()
	tag, err := strconv.Unquote(field.Tag.Value)
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	if name == "-" {
		return
	}
	line := "- `" + name + "` " + kind(field.Type) + ": " + strings.TrimSpace(field.Comment.Text())
	b.WriteString(strings.TrimSuffix(line, ": ") + "\n")
}

// kind returns the type of a member in words.
func kind(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return kind(e.X)
	case *ast.ArrayType:
		return "list of " + kind(e.Elt)
	case *ast.Ident:
		words := map[string]string{"string": "text", "bool": "true or false", "int64": "number", "Decimal": "decimal", "Date": "date"}
		if word, ok := words[e.Name]; ok {
			return word
		}
		return fmt.Sprintf("[%s](#%s)", e.Name, strings.ToLower(e.Name))
	}
	return ""
}
