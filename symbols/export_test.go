package symbols

// IndexSize returns how many bytes the index of searches takes, and what its segments say
// of that.
func (s *Service) IndexSize() (size, counted int64) {
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	for _, segment := range s.index.segments {
		counted += segment.cost()
	}
	return s.index.size, counted
}
