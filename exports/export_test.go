package exports

import "time"

// SetOriginPatience says how long a file may wait for its turn before it is
// opened anew, if it could not be resumed.
func (s *Service) SetOriginPatience(d time.Duration) { s.originPatience = d }
