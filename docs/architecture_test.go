// Package docs_test compares docs/ with the code.
package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The architecture has a line for every package, and for no other.
func TestArchitectureHasEveryPackage(t *testing.T) {
	t.Parallel()
	var listed []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(architecture(t), -1) {
		listed = append(listed, m[1])
	}
	var want []string
	for dir := range packages(t) {
		if !strings.HasPrefix(dir, "examples") && dir != "docs" {
			want = append(want, dir)
		}
	}
	slices.Sort(listed)
	slices.Sort(want)
	if !slices.Equal(listed, want) {
		t.Errorf("the lines are\n%q\nand the packages\n%q", listed, want)
	}
}

// The way of a sub-task leads through functions that exist.
func TestHopsExist(t *testing.T) {
	t.Parallel()
	_, hops, _ := strings.Cut(architecture(t), "\n## One sub-task, hop by hop\n")
	hops, _, _ = strings.Cut(hops, "\n## ")
	if n := len(regexp.MustCompile(`(?m)^\d+\. `).FindAllString(hops, -1)); n == 0 || n > 30 {
		t.Errorf("there are %d hops", n)
	}
	declared := map[string]bool{}
	for dir, files := range packages(t) {
		for _, path := range files {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				for _, name := range names(d) {
					declared[filepath.Base(dir)+"."+name] = true
				}
			}
		}
	}
	all := regexp.MustCompile("`([a-z]+(\\.[A-Za-z]+)+)`").FindAllStringSubmatch(hops, -1)
	for _, m := range all {
		if !declared[m[1]] {
			t.Errorf("there is no %s", m[1])
		}
	}
	if len(all) < 30 {
		t.Errorf("%d functions are named", len(all))
	}
}

// names returns the functions, methods and types of a declaration: F, T.M or T.
func names(d ast.Decl) (all []string) {
	switch d := d.(type) {
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if s, ok := s.(*ast.TypeSpec); ok {
				all = append(all, s.Name.Name)
			}
		}
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			of := d.Recv.List[0].Type
			if p, ok := of.(*ast.StarExpr); ok {
				of = p.X
			}
			if of, ok := of.(*ast.Ident); ok {
				name = of.Name + "." + name
			}
		}
		all = append(all, name)
	}
	return all
}

func architecture(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// packages returns the directories with Go files, relative to the root of the repository, with the files.
func packages(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "tools" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "testdata"):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go"):
			dir := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), ".."+string(filepath.Separator)))
			all[dir] = append(all[dir], path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
