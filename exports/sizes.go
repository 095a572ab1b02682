package exports

import (
	"crypto/sha256"
	"sync"
	"time"
)

// maxSizes is how many addresses' files are remembered.
const maxSizes = 1 << 16

// sizes remembers what files have turned out to be when a batch read them to
// their end, so that the length of the next batch can be told before they are
// opened. It is safe for concurrent use.
type sizes struct {
	keep time.Duration // nothing is remembered if negative
	now  func() time.Time

	mu         sync.Mutex
	young, old map[[sha256.Size]byte]remembered // by address
}

// remembered is what was found out about the file at an address.
type remembered struct {
	name     string // for an export without a registered one
	size     int64  // -1 if unknown
	opened   time.Time
	at       time.Time // when this was found out
	believed bool      // it has been had so, and not failed since
	unsteady bool      // it was part of a promise that was broken, and has not been had since

	// when the size was last found to be another one, and the time before
	changed, changedBefore time.Time
}

func newSizes(keep time.Duration, now func() time.Time) *sizes {
	return &sizes{keep: keep, now: now, young: make(map[[sha256.Size]byte]remembered)}
}

// recall returns what is remembered of an export's file. It does not count if
// the export was registered after the file was opened, which says that there
// may be a new one; nor if the size has changed twice within the time that it
// is remembered, as that of a file does that is made anew for each request.
func (s *sizes) recall(export Export) (file remembered, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	file, ok = s.get(keyOf(export))
	return file, ok && file.believed && file.of(export) && !s.fresh(file.changedBefore)
}

// learn remembers a file that has been read to its end.
func (s *sizes) learn(export Export, name string, size int64, opened time.Time) {
	s.put(export, func(file *remembered) {
		if file.of(export) && file.size != size {
			file.change(s.now())
		}
		file.name, file.size, file.opened, file.believed = name, size, opened, true
		file.unsteady = false
	})
}

// forget is for a file that could not be had.
func (s *sizes) forget(export Export) {
	s.put(export, func(file *remembered) { file.believed = false })
}

// mistrust is for a file that was promised, in a batch that could not be written
// as promised.
func (s *sizes) mistrust(export Export) {
	s.put(export, func(file *remembered) { file.believed, file.unsteady = false, true })
}

// steady reports whether a file may be promised that has been opened, but not
// read to its end.
func (s *sizes) steady(export Export) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	file, ok := s.get(keyOf(export))
	return !ok || !file.unsteady
}

// doubt is for a file that was there, but not with the size that was
// remembered. That it has now is -1 if unknown.
func (s *sizes) doubt(export Export, was, is int64) {
	s.put(export, func(file *remembered) {
		if file.of(export) && file.size == was { // nobody has noticed before
			file.change(s.now())
		}
		file.size, file.believed = is, false
	})
}

// of reports whether the size is that of an export's file.
func (r *remembered) of(export Export) bool {
	return r.size >= 0 && !r.opened.Before(export.UpdatedAt)
}

func (r *remembered) change(now time.Time) { r.changedBefore, r.changed = r.changed, now }

// keyOf stands for an address, which may itself have 32 KB.
func keyOf(export Export) [sha256.Size]byte { return sha256.Sum256([]byte(export.ExportedURL)) }

// put changes what is remembered of an export's file. Of two generations of
// files the older one goes when the younger is full, so that what is read now
// and then stays.
func (s *sizes) put(export Export, change func(*remembered)) {
	if s.keep < 0 {
		return
	}
	key := keyOf(export)
	s.mu.Lock()
	defer s.mu.Unlock()
	file, ok := s.get(key)
	if !ok {
		file = remembered{size: -1}
	}
	change(&file)
	file.at = s.now()
	if _, there := s.young[key]; !there && len(s.young) >= maxSizes/2 {
		s.old, s.young = s.young, make(map[[sha256.Size]byte]remembered)
	}
	s.young[key] = file
}

// get is called with the lock held.
func (s *sizes) get(key [sha256.Size]byte) (file remembered, ok bool) {
	if file, ok = s.young[key]; !ok {
		file, ok = s.old[key]
	}
	return file, ok && s.fresh(file.at)
}

// fresh reports whether a time is not too long ago to count.
func (s *sizes) fresh(t time.Time) bool { return s.now().Sub(t) < s.keep }
