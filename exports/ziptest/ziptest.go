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
	"runtime"
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
	for _, tool := range []struct {
		program string
		args    []string
		pipe    bool
		lists   bool // prints one name per line
	}{
		{program: "unzip", args: []string{"-tqq", path}},
		{program: "7z", args: []string{"t", path}},
		{program: "python3", args: []string{"-c", pythonReader, path}, lists: true},
		{program: "bsdtar", args: []string{"-tf", path}, lists: true},
		{program: "bsdtar", args: []string{"-tf", "-"}, pipe: true, lists: true},
		{program: "bsdtar", args: []string{"-xOf", "-"}, pipe: true}, // also verifies checksums
		{program: "javac", args: []string{"-Dfile.encoding=UTF-8", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}, pipe: true, lists: true},
	} {
		if _, err := exec.LookPath(tool.program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Errorf("%s is not installed", tool.program)
			}
			t.Logf("SKIPPED: %s is not installed", tool.program)
			continue
		}
		cmd := exec.CommandContext(t.Context(), tool.program, tool.args...)
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
		if tool.program == "javac" {
			source := filepath.Join(t.TempDir(), "Read.java")
			if err := os.WriteFile(source, []byte(javaReader), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd = exec.CommandContext(t.Context(), "java", append(tool.args, source)...)
		}
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
			t.Errorf("%s: %v\n%.2000s", cmd, err, out)
			continue
		}
		if !tool.lists {
			continue
		}
		listed := strings.Split(strings.TrimSpace(string(out)), "\n")
		if len(listed) != count {
			t.Errorf("%s lists %d entries, want %d", cmd, len(listed), count)
		}
		for i, name := range names {
			if i < len(listed) && listed[i] != name {
				t.Errorf("%s lists %q, want %q", cmd, listed[i], name)
			}
		}
	}
}

// HeapMeter is an [io.Writer] that discards an archive and measures the heap
// after every MiB of it.
type HeapMeter struct {
	baseline, peak uint64
	remaining      int // bytes until the next measurement
}

// NewHeapMeter returns a HeapMeter. Its baseline is the current heap.
func NewHeapMeter() *HeapMeter {
	reachableBytes() // the second collection empties pools
	return &HeapMeter{baseline: reachableBytes()}
}

// Write implements [io.Writer].
func (h *HeapMeter) Write(p []byte) (int, error) {
	if h.remaining -= len(p); h.remaining <= 0 {
		h.remaining = 1 << 20
		h.peak = max(h.peak, reachableBytes())
	}
	return len(p), nil
}

// Growth returns the difference between the largest heap and the baseline, in
// bytes.
func (h *HeapMeter) Growth() int64 { return int64(h.peak) - int64(h.baseline) }

func reachableBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
