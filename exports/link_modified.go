package exports

import "time"

// HasStrongModified reports whether Modified is a strong validator (RFC 9110,
// section 8.8.2.2): its second is over, and all responses of the link so far were
// of one file. A later plan may be of another file with an equal Modified.
func (l *Link) HasStrongModified() bool {
	return l.stored.Version == 1 && !l.Modified.IsZero() && l.service.now().Sub(l.Modified) >= time.Second
}
