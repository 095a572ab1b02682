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

// FoundSize returns how many bytes searches keep of what they have found, and what the
// symbols say of that.
func (s *Service) FoundSize() (size, counted int64) {
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	for _, found := range s.index.found {
		counted += found.cost()
	}
	return s.index.foundSize, counted
}
