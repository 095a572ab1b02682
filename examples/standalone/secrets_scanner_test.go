package main

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode/utf16"

	"github.com/jackc/pgx/v5"
	"github.com/matryer/is"
)

// scanner finds secrets and long parts of them in several encodings.
type scanner struct {
	mu    sync.Mutex
	forms map[string][]form // by their first leakLength bytes
}

// form is an encoded part of a secret.
type form struct{ text, secret string }

// leakLength is the number of consecutive characters of a secret that count as a
// leak.
const leakLength = 12

// add adds a secret.
func (s *scanner) add(name, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forms == nil {
		s.forms = make(map[string][]form)
	}
	for i := 0; i+leakLength <= len(secret); i++ {
		for _, text := range formsOf(secret[i : i+leakLength]) {
			s.forms[text[:leakLength]] = append(s.forms[text[:leakLength]], form{text, name})
		}
	}
}

// addRaw adds a raw key without the parts that its mask shows.
func (s *scanner) addRaw(name, raw string) {
	const shown, tail = len("cbk_") + 6, 4
	s.add(name, raw[shown:len(raw)-tail])
}

// formsOf returns text in several encodings.
func formsOf(text string) []string {
	var decimal, hexadecimal, wide []string
	for _, c := range []byte(text) {
		decimal = append(decimal, fmt.Sprint(c))
		hexadecimal = append(hexadecimal, fmt.Sprintf("0x%x", c))
	}
	for _, unit := range utf16.Encode([]rune(text)) {
		wide = append(wide, string([]byte{byte(unit), byte(unit >> 8)}))
	}
	forms := []string{
		text, strings.Join(decimal, " "), strings.Join(decimal, ","), strings.Join(hexadecimal, ", "), strings.Join(wide, ""),
		hex.EncodeToString([]byte(text)), strings.ToUpper(hex.EncodeToString([]byte(text))),
	}
	for start := range 3 { // base64 depends on the offset modulo 3
		encoded := base64.StdEncoding.EncodeToString([]byte(text[start : start+9]))
		forms = append(forms, encoded, strings.NewReplacer("+", "-", "/", "_").Replace(encoded))
	}
	return forms
}

// find returns the names of the secrets in content.
func (s *scanner) find(content string) map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make(map[string]bool)
	for i := range len(content) - leakLength + 1 {
		for _, form := range s.forms[content[i:i+leakLength]] {
			if strings.HasPrefix(content[i:], form.text) {
				found[form.secret] = true
			}
		}
	}
	return found
}

// check fails the test if content is empty or contains a secret.
func (s *scanner) check(t *testing.T, where, content string) {
	t.Helper()
	if content == "" {
		t.Errorf("%s: nothing to search", where)
	}
	for name := range s.find(content) {
		t.Errorf("%s contains %s", where, name)
	}
}

// TestScanner_FindsEncodedSecrets shows that the scanner can find a leak.
func TestScanner_FindsEncodedSecrets(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const raw = "cbk_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklm"
	var s scanner
	s.addRaw("a raw key", raw)
	s.add("an admin key", "correct horse battery staple")
	for _, planted := range []string{
		raw, raw[20:40], `{"apiKey":"` + raw + `"}`, fmt.Sprintf("%x", raw), fmt.Sprintf("%X", raw), fmt.Sprint([]byte(raw)), fmt.Sprintf("%#v", []byte(raw)),
		base64.StdEncoding.EncodeToString([]byte(raw)), base64.RawURLEncoding.EncodeToString([]byte("x" + raw)), base64.StdEncoding.EncodeToString([]byte("xy" + raw)),
	} {
		t.Log(planted)
		is.Equal(s.find("before "+planted+" after"), map[string]bool{"a raw key": true})
	}
	is.True(s.find(`level=INFO key="correct horse battery staple"`)["an admin key"])
	for _, harmless := range []string{"cbk_012345****jklm", "cbk_012345", "correct h"} {
		is.Equal(len(s.find(harmless)), 0)
	}
}

// contents returns everything that a database stores: the files of SQLite, or the
// tables and the dump of PostgreSQL.
func contents(t *testing.T, databaseURL string) string {
	t.Helper()
	is := is.New(t)
	if path, ok := strings.CutPrefix(databaseURL, "sqlite:"); ok {
		files, err := filepath.Glob(filepath.Dir(path) + "/*") // with the write-ahead log
		is.NoErr(err)
		is.True(len(files) > 0)
		var all strings.Builder
		for _, name := range files {
			content := must(os.ReadFile(name))(t)
			all.Write(content)
		}
		return all.String()
	}
	return tables(t, databaseURL) + dump(t, databaseURL)
}

// tables returns every row of every table and the running queries.
func tables(t *testing.T, databaseURL string) string {
	t.Helper()
	is := is.New(t)
	ctx := context.Background() // t.Context is canceled in cleanups
	conn := must(pgx.Connect(ctx, databaseURL))(t)
	defer conn.Close(ctx)
	read := func(query string) []string {
		rows, _ := conn.Query(ctx, query)
		return must(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
	}
	names := read(`SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`)
	is.True(len(names) >= 6)
	all := read(`SELECT coalesce(query, '') FROM pg_stat_activity`)
	for _, name := range names {
		all = append(all, read(`SELECT r::text FROM `+name+` r`)...)
	}
	return strings.Join(all, "\n")
}

// dump returns the output of pg_dump, or "" if it is not installed.
func dump(t *testing.T, databaseURL string) string {
	t.Helper()
	program, err := exec.LookPath("pg_dump")
	if err != nil {
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_dump") // the pattern is valid
		if len(found) == 0 {
			t.Log("pg_dump is not installed, searching the tables only")
			return ""
		}
		program = found[len(found)-1]
	}
	out, err := exec.Command(program, "--dbname", databaseURL).Output()
	is.New(t).NoErr(err)
	return string(out)
}
