// Package ziptest shows tests what the readers of zip files make of an archive:
// Info-ZIP, 7-Zip, Python, libarchive and Java, from a file and from a pipe. It
// is for the tests of this module, and may change with them.
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

// Read fails a test unless every reader installed here takes the archive for
// whole and finds so many entries. Those that list names must find these, or
// any if there are none.
func Read(t *testing.T, archive []byte, count int, names []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "archive.zip")
	if err := os.WriteFile(path, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	ReadFile(t, path, count, names)
}

// ReadFile is Read for an archive that is a file.
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
		lists bool // prints one name a line
	}{
		{args: []string{"unzip", "-tqq", path}},
		{args: []string{"7z", "t", path}},
		{args: []string{"python3", "-c", pythonReader, path}, lists: true},
		{args: []string{"bsdtar", "-tf", path}, lists: true},
		{args: []string{"bsdtar", "-tf", "-"}, pipe: true, lists: true},
		{args: []string{"bsdtar", "-xOf", "-"}, pipe: true}, // which looks at checksums too
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
			cmd.Stdin = io.MultiReader(archive) // not a file to seek in
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%.2000s", tool.args, err, out)
			continue
		}
		if !tool.lists {
			continue
		}
		found := strings.Split(strings.TrimSpace(string(out)), "\n")
		if len(found) != count {
			t.Errorf("%s finds %d entries, want %d", tool.args, len(found), count)
		}
		for i, name := range names {
			if i < len(found) && found[i] != name {
				t.Errorf("%s finds %q, want %q", tool.args, found[i], name)
			}
		}
	}
}
