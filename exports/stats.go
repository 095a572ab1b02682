package exports

// Stats counts what a [Service] has done since it was created.
type Stats struct {
	// Files of batches and links that were prefetched when the response reached
	// them, and those that it had to wait for, such as the first of each.
	PrefetchReady  uint64
	PrefetchWaited uint64

	// Memory in use for prefetched files, and its limit [Options.PrefetchBytes].
	PrefetchBytes    int
	PrefetchMaxBytes int
}

// Stats returns the current statistics.
func (s *Service) Stats() Stats {
	stats := s.prefetch.Budget.Stats()
	return Stats{stats.Ready, stats.Waited, stats.UsedBytes, stats.MaxBytes}
}
