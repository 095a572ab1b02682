// Package ziptest checks archives with other zip readers: Info-ZIP, 7-Zip,
// Python, libarchive and Java, from a file and from a pipe.
//
// It serves the tests of several packages of this module, so it cannot be
// internal to one of them. It has no compatibility promise.
package ziptest

import (
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const pythonReader = `
import sys, zipfile
z = zipfile.ZipFile(sys.argv[1])
assert z.testzip() is None
for name in z.namelist(): print(name)
`

const javaReader = `
import java.util.zip.*;
public class Read {
  public static void main(String[] a) throws Exception {
    System.setOut(new java.io.PrintStream(System.out, true, "UTF-8"));
    ZipInputStream in = new ZipInputStream(System.in);
    byte[] buf = new byte[1 << 16];
    for (ZipEntry e; (e = in.getNextEntry()) != null; ) {
      while (in.read(buf) >= 0) {}
      System.out.println(e.getName());
    }
  }
}
`

// Read fails the test unless every installed reader accepts the archive as
// complete. Readers that list entries must list count of them, beginning with
// names. A reader that is not installed is an error only if $CI is true.
func Read(t *testing.T, archive []byte, count int, names []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "archive.zip")
	if err := os.WriteFile(path, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	ReadFile(t, path, count, names)
}

// javaClasses returns a directory with the compiled javaReader, or "" without a
// compiler. Processes share it, because compiling takes ten times as long as reading
// an archive.
func javaClasses(t *testing.T) string {
	t.Helper()
	javac, err := exec.LookPath("javac")
	if err != nil {
		return ""
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir()
	}
	dir := filepath.Join(cache, fmt.Sprintf("canvasback-ziptest-%x", crc32.ChecksumIEEE([]byte(javaReader))))
	if _, err := os.Stat(filepath.Join(dir, "Read.class")); err == nil {
		return dir
	}
	source := filepath.Join(t.TempDir(), "Read.java")
	if err := os.WriteFile(source, []byte(javaReader), 0o600); err != nil {
		t.Fatal(err)
	}
	classes := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), javac, "-d", classes, source).CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	content, err := os.ReadFile(filepath.Join(classes, "Read.class"))
	if err != nil {
		t.Fatal(err)
	}
	// A rename makes the file appear at once to other processes.
	temporary := filepath.Join(classes, "complete")
	if os.MkdirAll(dir, 0o700) == nil && os.WriteFile(temporary, content, 0o600) == nil && os.Rename(temporary, filepath.Join(dir, "Read.class")) == nil {
		return dir
	}
	return classes
}

// ReadFile is like [Read] for an archive in a file.
func ReadFile(t *testing.T, path string, count int, names []string) {
	t.Helper()
	for _, tool := range []struct {
		args  []string
		pipe  bool
		lists bool // prints one name per line
	}{
		{args: []string{"unzip", "-tqq", path}},
		{args: []string{"7z", "t", path}},
		{args: []string{"python3", "-c", pythonReader, path}, lists: true},
		{args: []string{"bsdtar", "-tf", path}, lists: true},
		{args: []string{"bsdtar", "-tf", "-"}, pipe: true, lists: true},
		{args: []string{"bsdtar", "-xOf", "-"}, pipe: true}, // also verifies checksums
		{args: []string{"java", "-Dfile.encoding=UTF-8", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", javaClasses(t), "Read"}, pipe: true, lists: true},
	} {
		program := tool.args[0]
		if program == "java" {
			program = "javac"
		}
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Errorf("%s is not installed", program)
			}
			t.Logf("SKIPPED: %s is not installed", program)
			continue
		}
		cmd := exec.CommandContext(t.Context(), tool.args[0], tool.args[1:]...)
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
		if tool.pipe {
			archive, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer archive.Close()
			cmd.Stdin = io.MultiReader(archive) // a pipe instead of a seekable file
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%.2000s", tool.args, err, out)
			continue
		}
		if !tool.lists {
			continue
		}
		listed := strings.Split(strings.TrimSpace(string(out)), "\n")
		if len(listed) != count {
			t.Errorf("%s lists %d entries, want %d", tool.args, len(listed), count)
		}
		for i, name := range names {
			if i < len(listed) && listed[i] != name {
				t.Errorf("%s lists %q, want %q", tool.args, listed[i], name)
			}
		}
	}
}
