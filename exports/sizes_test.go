package exports

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
)

// at is a time of one day.
func at(clock string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", "2026-03-30 "+clock)
	if err != nil {
		panic(err)
	}
	return t
}

func TestSizes_whatCounts(t *testing.T) {
	t.Parallel()
	registered := Export{ExportedURL: "https://x.example/a", UpdatedAt: at("12:00")}
	again := registered
	again.UpdatedAt = at("12:05")
	other := Export{ExportedURL: "https://x.example/b", UpdatedAt: at("12:00")}

	type step struct {
		clock string
		do    func(s *sizes)
	}
	learn := func(export Export, size int64, opened string) func(*sizes) {
		return func(s *sizes) { s.learn(export, "a", size, at(opened)) }
	}
	forget := func(s *sizes) { s.forget(registered) }
	doubt := func(was, is int64) func(*sizes) { return func(s *sizes) { s.doubt(registered, was, is) } }
	for name, c := range map[string]struct {
		steps  []step
		clock  string
		export Export
		want   int64 // -1 for nothing
	}{
		"nothing":                          {nil, "12:00", registered, -1},
		"a file":                           {[]step{{"12:01", learn(registered, 5, "12:01")}}, "12:02", registered, 5},
		"an empty file":                    {[]step{{"12:01", learn(registered, 0, "12:01")}}, "12:02", registered, 0},
		"another address":                  {[]step{{"12:01", learn(registered, 5, "12:01")}}, "12:02", other, -1},
		"the same moment":                  {[]step{{"12:00", learn(registered, 5, "12:00")}}, "12:00", registered, 5},
		"almost an hour ago":               {[]step{{"12:01", learn(registered, 5, "12:01")}}, "13:00", registered, 5},
		"an hour ago":                      {[]step{{"12:01", learn(registered, 5, "12:01")}}, "13:01", registered, -1},
		"registered again":                 {[]step{{"12:01", learn(registered, 5, "12:01")}}, "12:06", again, -1},
		"registered while it was read":     {[]step{{"12:07", learn(registered, 5, "12:01")}}, "12:08", again, -1},
		"registered again and read":        {[]step{{"12:01", learn(registered, 5, "12:01")}, {"12:06", learn(again, 6, "12:06")}}, "12:07", again, 6},
		"a download of an hour":            {[]step{{"13:10", learn(registered, 5, "12:01")}}, "13:20", registered, 5},
		"changed":                          {[]step{{"12:01", learn(registered, 5, "12:01")}, {"12:02", learn(registered, 6, "12:02")}}, "12:03", registered, 6},
		"changed twice":                    {[]step{{"12:01", learn(registered, 5, "12:01")}, {"12:02", learn(registered, 6, "12:02")}, {"12:03", learn(registered, 7, "12:03")}}, "12:04", registered, -1},
		"changed twice and steady since":   {[]step{{"12:01", learn(registered, 5, "12:01")}, {"12:02", learn(registered, 6, "12:02")}, {"12:03", learn(registered, 7, "12:03")}, {"12:50", learn(registered, 7, "12:50")}}, "13:10", registered, 7},
		"registered again is no change":    {[]step{{"12:01", learn(registered, 5, "12:01")}, {"12:02", learn(registered, 6, "12:02")}, {"12:06", learn(again, 7, "12:06")}}, "12:07", again, 7},
		"forgotten":                        {[]step{{"12:01", learn(registered, 5, "12:01")}, {"12:02", forget}}, "12:03", registered, -1},
		"forgotten and found":              {[]step{{"12:01", learn(registered, 5, "12:01")}, {"12:02", forget}, {"12:03", learn(registered, 6, "12:03")}}, "12:04", registered, 6},
		"doubted":                          {[]step{{"12:01", learn(registered, 5, "12:01")}, {"12:02", doubt(5, -1)}}, "12:03", registered, -1},
		"doubted and found":                {[]step{{"12:01", learn(registered, 5, "12:01")}, {"12:02", doubt(5, -1)}, {"12:03", learn(registered, 6, "12:03")}}, "12:04", registered, 6},
		"doubted, found and doubted":       {[]step{{"12:01", learn(registered, 5, "12:01")}, {"12:02", doubt(5, -1)}, {"12:03", learn(registered, 6, "12:03")}, {"12:04", doubt(6, -1)}, {"12:05", learn(registered, 7, "12:05")}}, "12:06", registered, -1},
		"doubted and found as it was then": {[]step{{"12:01", learn(registered, 5, "12:01")}, {"12:02", doubt(5, 6)}, {"12:03", learn(registered, 6, "12:03")}}, "12:04", registered, 6},
		"doubted and found to be a third":  {[]step{{"12:01", learn(registered, 5, "12:01")}, {"12:02", doubt(5, 6)}, {"12:03", learn(registered, 7, "12:03")}}, "12:04", registered, -1},
		"one change noticed twice":         {[]step{{"12:01", learn(registered, 5, "12:01")}, {"12:02", learn(registered, 6, "12:02")}, {"12:02", doubt(5, -1)}, {"12:03", learn(registered, 6, "12:03")}}, "12:04", registered, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var now time.Time
			s := newSizes(time.Hour, func() time.Time { return now })
			for _, step := range c.steps {
				now = at(step.clock)
				step.do(s)
			}
			now = at(c.clock)
			file, ok := s.recall(c.export)
			if !ok {
				file.size = -1
			}
			if file.size != c.want {
				t.Errorf("the size is %d, want %d", file.size, c.want)
			}
		})
	}
}

func TestSizes_nothingIsRememberedIfNotWanted(t *testing.T) {
	t.Parallel()
	s := newSizes(-1, time.Now)
	s.learn(Export{}, "a", 5, time.Now())
	if _, ok := s.recall(Export{}); ok || len(s.young) > 0 {
		t.Error("it is remembered")
	}
}

// TestSizes_areBounded is not parallel, because there is one heap for all.
func TestSizes_areBounded(t *testing.T) {
	is := is.New(t)
	s := newSizes(time.Hour, time.Now)
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	long := strings.Repeat("x", 400)
	export := func(i int) Export { return Export{ExportedURL: fmt.Sprintf("https://x.example/%s/%d", long, i)} }
	idle := heap()
	for i := range 3 * maxSizes {
		if i%1000 == 0 {
			s.learn(export(-1), "kept", 7, time.Now())
		}
		s.learn(export(i), fmt.Sprintf("%s%10d", long[:245], i), 5, time.Now())
		if len(s.young)+len(s.old) > maxSizes {
			t.Fatalf("%d are remembered", len(s.young)+len(s.old))
		}
	}
	took := heap() - idle
	t.Logf("%d files take %d KB", len(s.young)+len(s.old), took>>10)
	is.True(took < 64<<20)
	file, ok := s.recall(export(-1)) // because it is used
	is.True(ok)
	is.Equal(file.name, "kept")
	_, ok = s.recall(export(3*maxSizes - maxSizes/2))
	is.True(ok)
	_, ok = s.recall(export(maxSizes))
	is.True(!ok)
}

func TestSizes_mayBeUsedByAll(t *testing.T) {
	t.Parallel()
	s := newSizes(time.Hour, time.Now)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 2000 {
				export := Export{ExportedURL: fmt.Sprint(n % 50)}
				switch (n + i) % 4 {
				case 0:
					s.forget(export)
				case 1:
					s.doubt(export, 5, -1)
				default:
					s.learn(export, "a", 5, time.Now())
				}
				if file, ok := s.recall(export); ok && file.size != 5 {
					t.Errorf("the size is %d", file.size)
				}
			}
		})
	}
	wg.Wait()
}
