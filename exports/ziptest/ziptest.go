// Package ziptest checks archives with other zip readers: Info-ZIP, 7-Zip,
// Python, libarchive and Java, from a file and from a pipe.
//
// It serves the tests of several packages of this module, so it cannot be
// internal to one of them. It has no compatibility promise.
package ziptest

import (
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

// ReadFile is like [Read] for an archive in a file.
func ReadFile(t *testing.T, path string, count int, names []string) {
	t.Helper()
	dir := t.TempDir()
	java := filepath.Join(dir, "Read.java")
	if err := os.WriteFile(java, []byte(javaReader), 0o600); err != nil {
		t.Fatal(err)
	}
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
		{args: []string{"java", "-Dfile.encoding=UTF-8", java}, pipe: true, lists: true},
	} {
		if _, err := exec.LookPath(tool.args[0]); err != nil {
			if os.Getenv("CI") == "true" {
				t.Errorf("%s is not installed", tool.args[0])
			}
			t.Logf("SKIPPED: %s is not installed", tool.args[0])
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
