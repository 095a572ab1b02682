// Command mutate changes one place of a package at a time, runs the tests of the package
// with it, and prints the mutants that no test has found:
//
//	go run .ci/mutate/main.go -seed 1 -count 20 -then ./httpapi ./httpapi/internal/bodies -skip 'Slow'
//
// The arguments after the package are those of go test. What the tests of the package do not
// find is tested with those of -then too. The work tree is not changed.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A mutant changes a place of a syntax tree.
type mutant struct {
	at     token.Pos
	what   string
	change func()
}

// opposite has the operators that replace others.
var opposite = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.LAND: token.LOR, token.LOR: token.LAND, token.ADD: token.SUB, token.SUB: token.ADD,
}

// mutants returns all mutants of a file.
func mutants(file *ast.File) (list []mutant) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if op, ok := opposite[n.Op]; ok {
				list = append(list, mutant{n.OpPos, fmt.Sprintf("%s instead of %s", op, n.Op), func() { n.Op = op }})
			}
		case *ast.IfStmt:
			list = append(list, mutant{n.Pos(), "negated condition", func() {
				n.Cond = &ast.UnaryExpr{Op: token.NOT, X: &ast.ParenExpr{X: n.Cond}}
			}})
		case *ast.BlockStmt:
			for i, statement := range n.List {
				switch s := statement.(type) {
				case *ast.AssignStmt:
					if s.Tok == token.DEFINE {
						continue
					}
				case *ast.ExprStmt, *ast.DeferStmt, *ast.IncDecStmt:
				default:
					continue
				}
				list = append(list, mutant{statement.Pos(), "statement removed", func() { n.List[i] = &ast.EmptyStmt{} }})
			}
		}
		return true
	})
	return list
}

// source returns the text of a file with its n-th mutant, or n, the number of mutants.
func source(name string, n int) (text []byte, what string, total int, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, nil, 0)
	if err != nil {
		return nil, "", 0, err
	}
	list := mutants(file)
	if n >= 0 {
		list[n].change()
		what = fmt.Sprintf("%s: %s", files.Position(list[n].at), list[n].what)
	}
	var b bytes.Buffer
	err = printer.Fprint(&b, files, file)
	return b.Bytes(), what, len(list), err
}

// test returns how the tests of a package end with another text of a file.
func test(dir, name string, text []byte, args []string) (string, error) {
	replacement, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(replacement, text, 0o600); err != nil {
		return "", err
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	table, err := json.Marshal(map[string]any{"Replace": map[string]string{path: replacement}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, table, 0o600); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	args = append([]string{"test", "-count=1", "-vet=off", "-failfast", "-timeout=4m", "-overlay=" + overlay}, args...)
	out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
	switch {
	case err == nil:
		return "SURVIVED", nil
	case bytes.Contains(out, []byte("[build failed]")):
		return "invalid", nil
	case ctx.Err() != nil, bytes.Contains(out, []byte("panic: test timed out")):
		return "timeout", nil
	}
	return "found", nil
}

func main() {
	seed := flag.Uint64("seed", 1, "of the mutants that are drawn")
	count := flag.Int("count", 10, "how many mutants")
	then := flag.String("then", "", "arguments of a second go test for what the first has not found")
	flag.Parse()
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	names, err := filepath.Glob(filepath.Join(flag.Arg(0), "*.go"))
	if err != nil {
		log.Fatal(err)
	}
	type place struct {
		file string
		n    int
	}
	var places []place
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		_, _, total, err := source(name, -1)
		if err != nil {
			log.Fatal(err)
		}
		for n := range total {
			places = append(places, place{name, n})
		}
	}
	random := rand.New(rand.NewPCG(*seed, 0))
	results := make(map[string]int)
	for _, i := range random.Perm(len(places)) {
		if results["found"]+results["SURVIVED"]+results["timeout"] >= *count {
			break
		}
		text, what, _, err := source(places[i].file, places[i].n)
		if err != nil {
			log.Fatal(err)
		}
		result, err := test(dir, places[i].file, text, flag.Args())
		if err == nil && result == "SURVIVED" && *then != "" {
			result, err = test(dir, places[i].file, text, strings.Fields(*then))
		}
		if err != nil {
			log.Fatal(err)
		}
		results[result]++
		fmt.Println(result, what)
	}
	fmt.Println(flag.Arg(0), results)
}
